#include "object/xmlpull.h"

void xmlpull_init(struct xmlpull *x, struct slice source)
{
    *x = (struct xmlpull){.source = source};
    if (source.n >= 3 && memcmp(source.p, "\xef\xbb\xbf", 3) == 0) x->at = 3;
}

void xmlpull_fini(struct xmlpull *x) { buf_fini(&x->decoded); }

static enum xmlpull_event fail(struct xmlpull *x)
{
    x->failed = true;
    return XMLPULL_ERROR;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == ':' || (unsigned char)c >= 0x80;
}

static bool looking_at(const struct xmlpull *x, const char *word)
{
    size_t n = strlen(word);
    return x->source.n - x->at >= n && memcmp(x->source.p + x->at, word, n) == 0;
}

static void skip_spaces(struct xmlpull *x)
{
    while (x->at < x->source.n && is_space(x->source.p[x->at])) x->at++;
}

/* Moves behind the next `end`; false if there is none. */
static bool skip_past(struct xmlpull *x, const char *end)
{
    size_t n = strlen(end);
    const char *found = memmem(x->source.p + x->at, x->source.n - x->at, end, n);
    if (!found) return false;
    x->at = (size_t)(found - x->source.p) + n;
    return true;
}

static struct slice take_name(struct xmlpull *x)
{
    size_t from = x->at;
    while (x->at < x->source.n && is_name_byte(x->source.p[x->at])) x->at++;
    return slice_of(x->source.p + from, x->at - from);
}

static struct slice without_prefix(struct slice name)
{
    const char *colon = name.n ? memrchr(name.p, ':', name.n) : NULL;
    if (!colon) return name;
    size_t n = (size_t)(colon - name.p) + 1;
    return slice_of(name.p + n, name.n - n);
}

/* ---- references */

static void add_utf8(struct buf *out, uint32_t c)
{
    if (c < 0x80) {
        buf_add_byte(out, (char)c);
    } else if (c < 0x800) {
        buf_add_byte(out, (char)(0xc0 | c >> 6));
        buf_add_byte(out, (char)(0x80 | (c & 63)));
    } else if (c < 0x10000) {
        buf_add_byte(out, (char)(0xe0 | c >> 12));
        buf_add_byte(out, (char)(0x80 | (c >> 6 & 63)));
        buf_add_byte(out, (char)(0x80 | (c & 63)));
    } else {
        buf_add_byte(out, (char)(0xf0 | c >> 18));
        buf_add_byte(out, (char)(0x80 | (c >> 12 & 63)));
        buf_add_byte(out, (char)(0x80 | (c >> 6 & 63)));
        buf_add_byte(out, (char)(0x80 | (c & 63)));
    }
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
}

/* "#10", "#xA": a character that is not NUL and no surrogate. */
static bool add_numbered(struct buf *out, struct slice ref)
{
    bool hex = ref.n > 1 && (ref.p[1] == 'x' || ref.p[1] == 'X');
    size_t i = hex ? 2 : 1;
    uint32_t c = 0;
    if (i == ref.n) return false;
    for (; i < ref.n; i++) {
        int d = digit_of(ref.p[i]);
        if (d >= (hex ? 16 : 10)) return false;
        c = c * (hex ? 16u : 10u) + (uint32_t)d;
        if (c > 0x10ffff) return false;
    }
    if (c == 0 || (c >= 0xd800 && c <= 0xdfff)) return false;
    add_utf8(out, c);
    return true;
}

/* What stands between & and ;. */
static bool add_reference(struct buf *out, struct slice ref)
{
    static const struct {
        const char *name;
        char c;
    } named[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    if (ref.n > 0 && ref.p[0] == '#') return add_numbered(out, ref);
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        if (!slice_eq(ref, slice_str(named[i].name))) continue;
        buf_add_byte(out, named[i].c);
        return true;
    }
    return false;
}

/* ---- pieces */

/* Text up to the next <. */
static enum xmlpull_event take_text(struct xmlpull *x)
{
    const char *p = x->source.p + x->at, *end = memchr(p, '<', x->source.n - x->at);
    if (!end) return fail(x);
    x->decoded.len = 0;
    while (p < end) {
        const char *amp = memchr(p, '&', (size_t)(end - p));
        buf_add(&x->decoded, p, (size_t)((amp ? amp : end) - p));
        if (!amp) break;
        const char *semicolon = memchr(amp, ';', (size_t)(end - amp));
        if (!semicolon || !add_reference(&x->decoded, slice_of(amp + 1, (size_t)(semicolon - amp - 1)))) return fail(x);
        p = semicolon + 1;
    }
    x->at = (size_t)(end - x->source.p);
    x->text = buf_slice(&x->decoded);
    return XMLPULL_TEXT;
}

static enum xmlpull_event take_cdata(struct xmlpull *x)
{
    x->at += strlen("<![CDATA[");
    size_t from = x->at;
    if (!skip_past(x, "]]>")) return fail(x);
    x->text = slice_of(x->source.p + from, x->at - from - strlen("]]>"));
    return XMLPULL_TEXT;
}

/* Passes over name="value" up to > or />. */
static bool skip_attributes(struct xmlpull *x)
{
    for (;;) {
        skip_spaces(x);
        if (x->at >= x->source.n) return false;
        char c = x->source.p[x->at];
        if (c == '>' || c == '/') return true;
        if (take_name(x).n == 0) return false;
        skip_spaces(x);
        if (!looking_at(x, "=")) return false;
        x->at++;
        skip_spaces(x);
        if (!looking_at(x, "\"") && !looking_at(x, "'")) return false;
        char quote[2] = {x->source.p[x->at++], '\0'};
        if (!skip_past(x, quote)) return false;
    }
}

static enum xmlpull_event take_start(struct xmlpull *x)
{
    x->at++;
    struct slice whole = take_name(x);
    if (whole.n == 0 || x->depth == XMLPULL_DEPTH_MAX || (x->depth == 0 && x->had_root)) return fail(x);
    if (!skip_attributes(x)) return fail(x);
    if (looking_at(x, "/")) {
        x->at++;
        x->ends_now = true;
    }
    if (!looking_at(x, ">")) return fail(x);
    x->at++;
    x->had_root = true;
    x->open[x->depth++] = whole;
    x->name = without_prefix(whole);
    return XMLPULL_START;
}

static enum xmlpull_event close_element(struct xmlpull *x)
{
    x->name = without_prefix(x->open[--x->depth]);
    return XMLPULL_END;
}

static enum xmlpull_event take_end(struct xmlpull *x)
{
    x->at += strlen("</");
    struct slice whole = take_name(x);
    skip_spaces(x);
    if (x->depth == 0 || !slice_eq(whole, x->open[x->depth - 1]) || !looking_at(x, ">")) return fail(x);
    x->at++;
    return close_element(x);
}

enum xmlpull_event xmlpull_step(struct xmlpull *x)
{
    if (x->failed) return XMLPULL_ERROR;
    if (x->ends_now) {
        x->ends_now = false;
        return close_element(x);
    }
    for (;;) {
        if (x->depth == 0) skip_spaces(x);
        if (x->at >= x->source.n) return x->depth == 0 && x->had_root ? XMLPULL_DONE : fail(x);
        if (x->source.p[x->at] != '<') return x->depth > 0 ? take_text(x) : fail(x);
        if (looking_at(x, "</")) return take_end(x);
        if (looking_at(x, "<![CDATA[")) return x->depth > 0 ? take_cdata(x) : fail(x);
        if (looking_at(x, "<!--")) {
            if (!skip_past(x, "-->")) return fail(x);
        } else if (looking_at(x, "<?")) {
            if (!skip_past(x, "?>")) return fail(x);
        } else if (looking_at(x, "<!")) {
            return fail(x);
        } else {
            return take_start(x);
        }
    }
}

void xmlpull_escape(struct buf *out, struct slice text)
{
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (c == '&') buf_add_str(out, "&amp;");
        else if (c == '<') buf_add_str(out, "&lt;");
        else if (c == '>') buf_add_str(out, "&gt;");
        else if (c == '"') buf_add_str(out, "&quot;");
        else if ((unsigned char)c < 0x20) buf_printf(out, "&#%d;", c);
        else buf_add_byte(out, c);
    }
}
