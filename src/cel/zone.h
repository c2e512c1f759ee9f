/* Time zones: a fixed offset ("+01:00", "-09:30", "02:00"), or a name of the machine's zoneinfo files
 * ("Europe/Berlin"), which are read here: the one place of this folder that touches the system. */
#pragma once
#include "cel/cel.h"

/* Seconds that the zone is ahead of UTC at a time; false if there is no such zone. Memory for the file comes from the
 * scratch; a file that does not fit is no zone. */
bool zone_offset(struct scratch *scratch, struct slice zone, int64_t seconds, int64_t *offset);

/* The same from the bytes of a file in TZif format (RFC 8536), for tests and fuzzing. */
bool zone_file_offset(struct slice file, int64_t seconds, int64_t *offset);
