/* The C API from an installed tree: one rank, one sum. */
#include <stdio.h>
#include <string.h>
#include <sumcast/sumcast.h>

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, sumcast_last_error());
  return 1;
}

int main(void) {
  sumcast_options options;
  sumcast_context* context = NULL;
  sumcast_group* world = NULL;
  float data[4] = {1, 2, 3, 4};
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  if (sumcast_context_create(&options, &context) != SUMCAST_OK) return failed("create");
  if (sumcast_world(context, &world) != SUMCAST_OK) return failed("world");
  if (sumcast_all_reduce(world, data, data, 4, SUMCAST_F32, SUMCAST_SUM, NULL, NULL) != SUMCAST_OK)
    return failed("all_reduce");
  printf("sumcast %s, rank %u of %u\n", sumcast_version(), sumcast_context_rank(context),
         sumcast_context_size(context));
  sumcast_group_free(world);
  sumcast_context_free(context);
  return data[3] == 4 ? 0 : 1;
}
