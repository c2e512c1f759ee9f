/* Rows kept in a temporary file, for a build that has to see all of them before it can route the first (snapshot/input.h). */
#pragma once
#include "snapshot/input.h"

struct inputspool;

/* dir as tempfile_open takes it. Gives 0 or -errno; inputspool_free in any case, unless it became an input. */
int inputspool_new(struct inputspool **s, const char *dir, size_t n_columns);
void inputspool_free(struct inputspool *s);

int inputspool_add(struct inputspool *s, const struct input_row *row); /* 0 or -errno */
uint64_t inputspool_rows(const struct inputspool *s);
/* The rows again, from the first one on. 0 and an input, which the spool is now; or -errno. */
int inputspool_read(struct inputspool *s, struct input **in);
