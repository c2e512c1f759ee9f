/* TZif, version 2 and later, as far as it is needed here; all numbers big-endian:
 *
 *   header   "TZif", version, 15 zero bytes, then six counts of 4 bytes: isut, isstd, leap, time, type, char
 *   block    time transitions of 4 bytes, time type indexes of 1 byte, type records of 6 (offset 4, dst 1, name 1), char names,
 *            leap records of 8, isstd flags, isut flags                                    -- for old readers, skipped
 *   header   again
 *   block    again, transitions and leap seconds having 8 bytes                          -- the one that is used
 *   footer   newline, a POSIX TZ rule for times behind the last transition (zonerule.h), newline
 *
 * Leap seconds are ignored: CEL's time has none. */
#include "cel/zone.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cel/zonerule.h"

enum { HEADER_BYTES = 44, FILE_MAX = 65536 };

struct counts {
    uint32_t isut, isstd, leap, time, type, chars;
};

static uint32_t get_u32(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

static int64_t get_i64(const char *p) { return (int64_t)((uint64_t)get_u32(p) << 32 | get_u32(p + 4)); }

static bool read_header(struct slice file, size_t at, struct counts *c)
{
    if (file.n < at || file.n - at < HEADER_BYTES || memcmp(file.p + at, "TZif", 4) != 0 || file.p[at + 4] < '2') return false;
    const char *p = file.p + at + 20;
    *c = (struct counts){get_u32(p), get_u32(p + 4), get_u32(p + 8), get_u32(p + 12), get_u32(p + 16), get_u32(p + 20)};
    return c->isut <= FILE_MAX && c->isstd <= FILE_MAX && c->leap <= FILE_MAX && c->time <= FILE_MAX &&
           c->type <= 256 && c->chars <= FILE_MAX;
}

static size_t block_bytes(const struct counts *c, size_t time_bytes)
{
    return c->time * (time_bytes + 1) + c->type * 6 + c->chars + c->leap * (time_bytes + 4) + c->isstd + c->isut;
}

/* How many transitions lie at or before the time. */
static size_t transitions_until(const char *times, size_t count, int64_t seconds)
{
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (get_i64(times + middle * 8) <= seconds) low = middle + 1;
        else count = middle;
    }
    return low;
}

bool zone_file_offset(struct slice file, int64_t seconds, int64_t *offset)
{
    struct counts c;
    if (!read_header(file, 0, &c)) return false;
    size_t second = HEADER_BYTES + block_bytes(&c, 4);
    if (!read_header(file, second, &c) || c.type == 0) return false;
    size_t block = second + HEADER_BYTES, footer = block + block_bytes(&c, 8);
    if (footer > file.n) return false;

    const char *times = file.p + block, *indexes = times + c.time * 8, *types = indexes + c.time;
    size_t passed = transitions_until(times, c.time, seconds);
    if (passed == c.time && footer + 1 < file.n) {
        struct slice rule = slice_of(file.p + footer + 1, file.n - footer - 1);
        const char *newline = memchr(rule.p, '\n', rule.n);
        if (newline && zonerule_offset(slice_of(rule.p, (size_t)(newline - rule.p)), seconds, offset)) return true;
    }
    unsigned type = passed ? (unsigned char)indexes[passed - 1] : 0;
    if (type >= c.type) return false;
    *offset = (int32_t)get_u32(types + type * 6);
    return *offset > -100 * 3600 && *offset < 100 * 3600;
}

/* ---- the file of a name */

/* Letters, digits, "_", "+", "-" and "/": no way out of the folder. */
static bool is_name(struct slice name)
{
    if (name.n == 0 || name.n > 100 || name.p[0] == '/') return false;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && c != '_' && c != '+' && c != '-' && c != '/') return false;
    }
    return true;
}

static struct slice read_file(struct scratch *scratch, struct slice name)
{
    char path[160];
    snprintf(path, sizeof path, "/usr/share/zoneinfo/%.*s", (int)name.n, name.p);
    struct slice none = {NULL, 0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return none;
    struct stat st;
    char *bytes = NULL;
    ssize_t n = -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= FILE_MAX) bytes = scratch_alloc(scratch, (size_t)st.st_size);
    if (bytes) n = read(fd, bytes, (size_t)st.st_size);
    close(fd);
    return n >= 0 ? slice_of(bytes, (size_t)n) : none;
}

/* "+01:00", "-09:30", "02:00". */
static bool fixed_offset(struct slice zone, int64_t *offset)
{
    int sign = zone.n && zone.p[0] == '-' ? -1 : 1;
    if (zone.n && (zone.p[0] == '-' || zone.p[0] == '+')) zone = slice_of(zone.p + 1, zone.n - 1);
    if (zone.n != 5 || zone.p[2] != ':') return false;
    int digits[4] = {zone.p[0] - '0', zone.p[1] - '0', zone.p[3] - '0', zone.p[4] - '0'};
    for (int i = 0; i < 4; i++) {
        if (digits[i] < 0 || digits[i] > 9) return false;
    }
    int hours = digits[0] * 10 + digits[1], minutes = digits[2] * 10 + digits[3];
    if (hours > 23 || minutes > 59) return false;
    *offset = sign * (hours * 3600 + minutes * 60);
    return true;
}

bool zone_offset(struct scratch *scratch, struct slice zone, int64_t seconds, int64_t *offset)
{
    if (slice_eq(zone, SLICE("UTC")) || slice_eq(zone, SLICE("Z"))) {
        *offset = 0;
        return true;
    }
    if (fixed_offset(zone, offset)) return true;
    if (!is_name(zone)) return false;
    struct slice file = read_file(scratch, zone);
    return file.p && zone_file_offset(file, seconds, offset);
}
