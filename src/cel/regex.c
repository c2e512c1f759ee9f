#define PCRE2_CODE_UNIT_WIDTH 8
#include "cel/regex.h"

#include <pcre2.h>

#include "cel/regex_syntax.h"

enum { PATTERN_MAX = 4096, MATCH_STEPS_MAX = 200000, MATCH_DEPTH_MAX = 10000, MATCH_HEAP_KIB = 4096 };

/* PCRE2 takes its memory from a scratch; it comes back when that is reset. */
static void *take(PCRE2_SIZE bytes, void *scratch) { return scratch_alloc(scratch, bytes); }
static void give_back(void *p, void *scratch) {}

static const char *message_of(struct scratch *s, int code)
{
    PCRE2_UCHAR text[128];
    if (pcre2_get_error_message(code, text, sizeof text) < 0) return "cannot be compiled";
    struct slice copy = scratch_copy(s, slice_str((const char *)text));
    return copy.p ? copy.p : "cannot be compiled";
}

void *regex_compile(struct scratch *s, struct slice pattern, const char **error)
{
    *error = "takes too much memory";
    if (pattern.n > PATTERN_MAX) {
        *error = "longer than 4096 bytes";
        return NULL;
    }
    struct buf translated = {0};
    *error = regex_syntax_translate(pattern, &translated);
    struct slice text = scratch_copy(s, buf_slice(&translated));
    buf_fini(&translated);
    if (*error) return NULL;
    *error = "takes too much memory";
    pcre2_general_context *general = pcre2_general_context_create(take, give_back, s);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    if (!text.p || !context) return NULL;
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    int code;
    PCRE2_SIZE at;
    uint32_t options =
        PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE;
    pcre2_code *regex = pcre2_compile((PCRE2_SPTR)text.p, text.n, options, &code, &at, context);
    if (!regex) *error = message_of(s, code);
    return regex;
}

int regex_match(const void *regex, struct scratch *s, struct slice text)
{
    pcre2_general_context *general = pcre2_general_context_create(take, give_back, s);
    pcre2_match_context *context = general ? pcre2_match_context_create(general) : NULL;
    pcre2_match_data *data = general ? pcre2_match_data_create(1, general) : NULL;
    if (!context || !data) return -1;
    pcre2_set_match_limit(context, MATCH_STEPS_MAX);
    pcre2_set_depth_limit(context, MATCH_DEPTH_MAX);
    pcre2_set_heap_limit(context, MATCH_HEAP_KIB);
    int found = pcre2_match(regex, (PCRE2_SPTR)(text.n ? text.p : ""), text.n, 0, 0, data, context);
    return found >= 0 ? 1 : found == PCRE2_ERROR_NOMATCH ? 0 : -1;
}
