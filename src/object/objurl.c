#include "object/objurl.h"

static bool starts_with(struct slice s, struct slice head)
{
    return s.n >= head.n && strncasecmp(s.p, head.p, head.n) == 0;
}

static struct slice after(struct slice s, size_t n) { return slice_of(s.p + n, s.n - n); }

static struct slice without_end_slashes(struct slice s)
{
    while (s.n > 0 && s.p[s.n - 1] == '/') s.n--;
    return s;
}

bool objurl_is_plain_path(struct slice path)
{
    size_t from = 0;
    for (size_t i = 0; i <= path.n; i++) {
        if (i < path.n && path.p[i] == '\0') return false;
        if (i < path.n && path.p[i] != '/') continue;
        struct slice name = slice_of(path.p + from, i - from);
        if (name.n == 0 || name.n > 255 || slice_eq(name, SLICE(".")) || slice_eq(name, SLICE(".."))) return false;
        from = i + 1;
    }
    return true;
}

/* Stricter names are AWS's rule today; older buckets and other stores have capitals and underscores too. */
static bool is_bucket_name(struct slice name)
{
    if (name.n < 3 || name.n > 63) return false;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && ((c != '-' && c != '.' && c != '_') || i == 0)) return false;
        if (c == '.' && name.p[i - 1] == '.') return false;
    }
    return true;
}

static const char *parse_file(struct objurl *u, struct slice rest)
{
    if (starts_with(rest, SLICE("localhost/"))) rest = after(rest, SLICE("localhost").n);
    if (rest.n == 0 || rest.p[0] != '/') return "file:// needs an absolute path, as in file:///var/lib/snapshots";
    rest = without_end_slashes(rest);
    if (rest.n == 0) return "file:// needs a folder below the root, as in file:///var/lib/snapshots";
    if (!objurl_is_plain_path(after(rest, 1))) return "the path of a file:// URL must not hold empty names, \".\" or \"..\"";
    u->path = rest;
    return NULL;
}

static const char *parse_s3(struct objurl *u, struct slice rest)
{
    const char *slash = rest.n ? memchr(rest.p, '/', rest.n) : NULL;
    u->bucket = slash ? slice_of(rest.p, (size_t)(slash - rest.p)) : rest;
    if (memchr(u->bucket.p, '@', u->bucket.n)) return "credentials do not belong into a URL: use the environment, the AWS files or options";
    if (!is_bucket_name(u->bucket)) return "the bucket's name must have 3 to 63 letters, digits, dots or dashes";
    u->path = slash ? without_end_slashes(after(rest, u->bucket.n + 1)) : slice_of(rest.p + rest.n, 0);
    if (u->path.n > 0 && u->path.p[0] == '/') return "a prefix does not begin with a slash";
    if (u->path.n > 900) return "the prefix is too long";
    return NULL;
}

const char *objurl_parse(struct objurl *u, struct slice url)
{
    *u = (struct objurl){0};
    for (size_t i = 0; i < url.n; i++)
        if ((unsigned char)url.p[i] < 0x20 || url.p[i] == 0x7f) return "control characters do not belong into a URL";
    if (starts_with(url, SLICE("file://"))) {
        u->scheme = OBJURL_FILE;
        return parse_file(u, after(url, SLICE("file://").n));
    }
    if (starts_with(url, SLICE("s3://"))) {
        u->scheme = OBJURL_S3;
        return parse_s3(u, after(url, SLICE("s3://").n));
    }
    return "the URL must begin with file:// or s3://";
}
