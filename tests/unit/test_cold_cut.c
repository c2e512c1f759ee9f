/* The same tests with values that go to the cold tier and come back between the commands. */
#define HARNESS_COLD
#include "test_cut.c" /* NOLINT(bugprone-suspicious-include) */
