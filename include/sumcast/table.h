/* Tables of rows by key, shared by the ranks of a job: the C API over table.hpp, whose comments say
 * what each call does. The rules are those of sumcast.h: structures begin with their size and grow
 * at their end, every function returns 0 or one of sumcast_error, sumcast_last_error() has the
 * line.
 *
 *   sumcast_table_options table_options = {sizeof table_options};
 *   sumcast_table_defaults(&table_options);
 *   table_options.width = 16;
 *   sumcast_table* table;
 *   sumcast_table_open(&options, &table_options, &table);
 *   sumcast_table_pull(table, keys, count, rows);
 *   sumcast_table_push(table, gradients, count, NULL, 0, NULL);
 *
 * Calls of one table take turns, whatever thread they come from; all ranks make the same calls in
 * the same order. sumcast_table_abort may be called beside them. */
#ifndef SUMCAST_TABLE_H
#define SUMCAST_TABLE_H

#include "sumcast/sumcast.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sumcast_table sumcast_table;
typedef struct sumcast_saved_table sumcast_saved_table;

/* As sumcast::TableOptions, equal on all ranks. Set `size` and call sumcast_table_defaults. */
typedef struct sumcast_table_options {
  size_t size;
  const char* optimizer; /* NULL: "sgd" */
  uint32_t width;
  float rate, momentum, beta1, beta2, epsilon, beta, l1, l2, initial;
  float init_scale;
  uint64_t seed;
  uint32_t servers, segments;
  int32_t wire;                     /* enum sumcast_wire */
  int32_t resume;                   /* not 0: go on from the directory's checkpoint, if any */
  const char* checkpoint_directory; /* NULL: none */
  uint32_t hot_max, track;
  uint32_t admit_after, evict_after;
  uint64_t max_rows;
  int32_t row_wire; /* enum sumcast_wire */
  int32_t reserved; /* 0 */
} sumcast_table_options;

/* Writes what TableOptions has, but for `size`. */
int sumcast_table_defaults(sumcast_table_options* options);

/* Joins as a job of its own, named by `job`; blocks until all ranks are there. `job` NULL: this
 * rank alone. */
int sumcast_table_open(const sumcast_options* job, const sumcast_table_options* options,
                       sumcast_table** table);
/* Leaves; waits two seconds at most for the others to leave too. */
void sumcast_table_free(sumcast_table* table);

/* rows: f32[count][width], the caller's. Keys are distinct. */
int sumcast_table_pull(sumcast_table* table, const uint64_t* keys, size_t count, float* rows);
/* gradients: f32[count][width], of the `count` keys that are current; `next` may be none. */
int sumcast_table_push(sumcast_table* table, const float* gradients, size_t count,
                       const uint64_t* next, size_t next_count, float* next_rows);
/* The optimizer's rate from the next push on, equal on all ranks. */
int sumcast_table_set_rate(sumcast_table* table, float rate);
int sumcast_table_peek(sumcast_table* table, const uint64_t* keys, size_t count, float* rows);
int sumcast_table_set_hot(sumcast_table* table, const uint64_t* keys, size_t count);
/* `state`: what rank 0 wants back with the rows, any bytes. */
int sumcast_table_save(sumcast_table* table, int full, const void* state, size_t bytes);
/* Of the checkpoint that open took up: its state, valid as long as the table. NULL and 0 if it took
 * up none. */
int sumcast_table_restored(const sumcast_table* table, const void** state, size_t* bytes);

/* Ends the table on all ranks: calls that wait return SUMCAST_ABORTED. */
int sumcast_table_abort(sumcast_table* table, const char* reason);

/* As sumcast::TableCounters. */
typedef struct sumcast_table_counters {
  size_t size;
  uint64_t rounds, hot_pushed, cold_pushed, hot_moved, cold_pulled, hot_keys, hot_changes,
      rows_held, failovers, checkpoints, returns;
} sumcast_table_counters;
int sumcast_table_count(const sumcast_table* table, sumcast_table_counters* counters);

/* A checkpoint read without a job, as sumcast::read_table. Pointers are valid as long as `saved`.
 */
typedef struct sumcast_saved_view {
  size_t size;
  uint32_t width, state_lanes, number;
  uint32_t reserved;
  const char* optimizer;
  uint64_t rows;
  const uint64_t* keys; /* u64[rows], ascending */
  const float* records; /* f32[rows][width + state_lanes] */
  const void* state;
  uint64_t state_bytes;
} sumcast_saved_view;
int sumcast_saved_table_read(const char* directory, sumcast_saved_table** saved);
int sumcast_saved_table_view(const sumcast_saved_table* saved, sumcast_saved_view* view);
void sumcast_saved_table_free(sumcast_saved_table* saved);

#ifdef __cplusplus
}
#endif

#endif
