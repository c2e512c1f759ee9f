/* The POSIX TZ rule at the end of a zoneinfo file: "CET-1CEST,M3.5.0,M10.5.0/3". Pure. */
#pragma once
#include "cel/cel.h"

/* Seconds ahead of UTC at a time by the rule; false if it is empty or none. */
bool zonerule_offset(struct slice rule, int64_t seconds, int64_t *offset);
