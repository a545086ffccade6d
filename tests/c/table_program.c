/* A program in C, over the installed names: joins alone, sums, and trains a table. */
#include <stdio.h>
#include <sumcast/sumcast.h>
#include <sumcast/table.h>

static int failed(const char* call) {
  fprintf(stderr, "%s: %s\n", call, sumcast_last_error());
  return 1;
}

int main(void) {
  sumcast_table_options options = {sizeof options};
  if (sumcast_table_defaults(&options) != SUMCAST_OK) return failed("defaults");
  options.optimizer = "momentum";
  options.width = 2;
  options.rate = 0.5f;
  sumcast_table* table = NULL;
  if (sumcast_table_open(NULL, &options, &table) != SUMCAST_OK) return failed("open");
  const uint64_t keys[2] = {42, UINT64_MAX};
  const float gradients[4] = {1, 2, 3, 4};
  float rows[4];
  for (int round = 0; round < 2; ++round) {
    if (sumcast_table_pull(table, keys, 2, rows) != SUMCAST_OK) return failed("pull");
    if (sumcast_table_push(table, gradients, 2, NULL, 0, NULL) != SUMCAST_OK) return failed("push");
  }
  if (sumcast_table_peek(table, keys + 1, 1, rows) != SUMCAST_OK) return failed("peek");
  sumcast_table_free(table);
  /* v = 3, then 0.9 * 3 + 3: w = -0.5 * (3 + 5.7). */
  if (rows[0] < -4.3501f || rows[0] > -4.3499f) {
    fprintf(stderr, "a row is %g\n", rows[0]);
    return 1;
  }
  return 0;
}
