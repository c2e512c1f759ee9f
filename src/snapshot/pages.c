/* The first 100 bytes of a database, as far as they matter here (big endian)
 *
 *   0   "SQLite format 3" and a zero byte
 *   16  u16 page size, 1 for 65536
 *   18  u8 version for writing, u8 for reading: 1, or 2 for a file in write-ahead mode, whose pages may be old
 *   20  u8 reserved bytes at the end of each page
 *   24  u32 changes; 28 u32 number of pages; 92 u32 the number of changes for which that number holds
 *   44  u32 schema format, 1..4 (0 in a file without tables)
 *   56  u32 text encoding: 1 for UTF-8 */
#include "snapshot/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "snapshot/pagefile.h"

static int refuse(int code, const char *sentence, const char **why)
{
    if (why) *why = sentence;
    return code;
}

static int check_kind(const uint8_t *p, const char **why)
{
    if (p[18] != 1 || p[19] != 1) return refuse(ERR_SHARD_UNSUPPORTED, "the database is in write-ahead mode", why);
    if (p[20] != 0) return refuse(ERR_SHARD_UNSUPPORTED, "pages of the database have reserved bytes", why);
    if (p[21] != 64 || p[22] != 32 || p[23] != 32) return refuse(ERR_SHARD_DAMAGED, "the database header has wrong payload fractions", why);
    if (pagefile_u32(p + 44) > 4) return refuse(ERR_SHARD_UNSUPPORTED, "the database has an unknown schema format", why);
    if (pagefile_u32(p + 56) != 1) return refuse(ERR_SHARD_UNSUPPORTED, "the database is not in UTF-8", why);
    return 0;
}

int pages_header(struct slice first, uint64_t file_bytes, uint32_t *page_size, uint32_t *n_pages, const char **why)
{
    const uint8_t *p = (const uint8_t *)first.p;
    if (first.n < PAGEFILE_HEADER_BYTES || file_bytes < first.n) return refuse(ERR_SHARD_DAMAGED, "the file is shorter than a database header", why);
    if (memcmp(p, "SQLite format 3", 16) != 0) return refuse(ERR_SHARD_DAMAGED, "the file is no SQLite database", why);
    uint32_t size = pagefile_u16(p + 16) == 1 ? PAGEFILE_SIZE_MAX : pagefile_u16(p + 16);
    if (size < PAGEFILE_SIZE_MIN || (size & (size - 1))) return refuse(ERR_SHARD_DAMAGED, "the database header has a wrong page size", why);
    int rc = check_kind(p, why);
    if (rc) return rc;
    /* Writers before SQLite 3.7 left the number of pages alone; the number of changes tells. */
    uint64_t pages = file_bytes / size, told = pagefile_u32(p + 28);
    bool told_holds = told != 0 && pagefile_u32(p + 24) == pagefile_u32(p + 92);
    if (pages * size != file_bytes || (told_holds && told > pages)) return refuse(ERR_SHARD_DAMAGED, "the file is cut short", why);
    if (told_holds) pages = told;
    if (pages >= UINT32_MAX) return refuse(ERR_SHARD_DAMAGED, "the file has more pages than a database can have", why);
    *page_size = size;
    *n_pages = (uint32_t)pages;
    return 0;
}

int pages_of_bytes(struct page_source *s, struct slice bytes, const char **why)
{
    *s = (struct page_source){.base = (const uint8_t *)bytes.p};
    return pages_header(bytes, bytes.n, &s->page_size, &s->n_pages, why);
}

static int map_whole(int fd, struct slice *map, const char **why)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return -errno;
    if (!S_ISREG(st.st_mode)) return refuse(ERR_SHARD_DAMAGED, "not a regular file", why);
    if (st.st_size == 0) return refuse(ERR_SHARD_DAMAGED, "the file is empty", why);
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) return -errno;
    *map = slice_of(p, (size_t)st.st_size);
    return 0;
}

int pages_file_open(struct pages_file *f, const char *path, const char **why)
{
    *f = (struct pages_file){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    int rc = map_whole(fd, &f->map, why);
    close(fd);
    if (rc == 0) rc = pages_of_bytes(&f->source, f->map, why);
    if (rc) pages_file_close(f);
    return rc;
}

void pages_file_close(struct pages_file *f)
{
    if (f->map.n) munmap((void *)f->map.p, f->map.n);
    *f = (struct pages_file){0};
}
