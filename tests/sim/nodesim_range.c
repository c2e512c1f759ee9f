/* The line: a key space whose keys have an order, and commands on ranges of it.
 *
 * A range that is read at one moment is, in the history, a transaction that reads each key there is or could be between its bounds; so is a page of one, as far as it goes, and one that is deleted, of which only is told how many keys there were. The history of all keys of the line is therefore judged as one. */
#include <stdio.h>
#include <string.h>

#include "nodesim_own.h"
#include "resp/answer.h"

void nodesim_range_key(char out[NODESIM_KEY_BYTES], uint32_t i) { snprintf(out, NODESIM_KEY_BYTES, NODESIM_SPACE "/%c", 'a' + (int)i); }
bool nodesim_range_is_sum(uint32_t i) { return i == nodesim_range_sum(0) || i == nodesim_range_sum(1); }
uint32_t nodesim_range_sum(uint32_t which) { return which ? NODESIM_LINE_KEYS - 2 : 1; }

enum { LIMIT = 4, CURSOR = 6 }; /* words of a request that wants a page */

static void say(struct nodesim_client *c, const char *word) { snprintf(c->request.words[c->request.argc++], NODESIM_WORD_BYTES, "%s", word); }

static void add_parts(struct nodesim_client *c, enum wgl_kind kind)
{
    c->n_parts = 0;
    for (uint32_t i = c->page; i < c->n_names; i++) c->parts[c->n_parts++] = (struct wgl_part){.kind = kind, .key = slice_str(c->names[i])};
}

static void ask_for_page(struct nodesim *s, struct nodesim_client *c)
{
    say(c, "limit");
    say(c, rng_below(world_rng(s->w), 2) ? "1" : "3");
}

/* From the client's key on: some keys, or all to the end of the line. */
void nodesim_range_ask(struct nodesim *s, struct nodesim_client *c, bool reads)
{
    uint32_t first = c->key - NODESIM_LINE, n = 1 + (uint32_t)rng_below(world_rng(s->w), reads ? NODESIM_LINE_KEYS : 4);
    bool to_end = first + n >= NODESIM_LINE_KEYS;
    char end[NODESIM_KEY_BYTES];
    if (to_end) n = NODESIM_LINE_KEYS - first;
    nodesim_range_key(end, first + n);
    for (uint32_t i = 0; i < n; i++) nodesim_range_key(c->names[i], first + i);
    c->n_names = n;
    c->page = c->request.argc = 0;
    add_parts(c, reads ? WGL_GET : WGL_DEL);
    say(c, reads ? "range.get" : "range.del");
    say(c, NODESIM_SPACE);
    say(c, c->names[0]);
    say(c, to_end ? "+" : end);
    if (reads && rng_below(world_rng(s->w), 2)) ask_for_page(s, c);
}

/* The cursor is among the request's words already. */
void nodesim_range_go_on(struct nodesim_client *c)
{
    c->page = c->next_page;
    c->next_page = 0;
    c->request.argc = CURSOR;
    add_parts(c, WGL_GET);
    say(c, "cursor");
    c->request.argc++;
}

/* The space has no order yet, or not any more; or its keys are being carried elsewhere. */
bool nodesim_range_refuses(struct slice reply)
{
    return answer_is_error(reply, "TRYAGAIN") || (answer_is_error(reply, "ERR") && memmem(reply.p, reply.n, "has no order", 12));
}

/* Which of its parts the next page begins with, by the cursor: a key that there was behind those that were shown. n_parts: none. */
static uint32_t part_of_cursor(const struct nodesim_client *c, struct slice cursor, uint32_t at)
{
    if (!cursor.n || cursor.p[0] != '>') return c->n_parts;
    while (at < c->n_parts && !slice_eq(slice_of(cursor.p + 1, cursor.n - 1), c->parts[at].key)) at++;
    return at;
}

/* What was shown of its keys: up to the cursor, if there is another page. */
static bool take_pairs(struct nodesim_client *c, struct slice in, struct wgl_answer *answers)
{
    uint32_t two, n, at = 0;
    struct answer cursor, a, value;
    if (!answer_array(&in, &two) || two != 2 || !answer_next(&in, &cursor) || !answer_array(&in, &n) || n % 2) return false;
    for (uint32_t i = 0; i < n; i += 2, at++) {
        if (!answer_next(&in, &a) || !answer_next(&in, &value) || value.type != '$') return false;
        while (at < c->n_parts && !slice_eq(a.text, c->parts[at].key)) at++; /* they come in order */
        if (at == c->n_parts) return false;
        answers[at] = (struct wgl_answer){.value = value.text};
    }
    uint32_t limit = c->request.argc > LIMIT ? (uint32_t)(c->request.words[LIMIT + 1][0] - '0') : NODESIM_LINE_KEYS;
    bool is_last = slice_is(cursor.text, "0");
    if (n / 2 > limit || (!is_last && n / 2 < limit)) return false;
    if (is_last) return true;
    at = part_of_cursor(c, cursor.text, at);
    if (at == c->n_parts) return false;
    c->next_page = c->page + at;
    for (; at < c->n_parts; at++) answers[at] = (struct wgl_answer){.unseen = true};
    snprintf(c->request.words[CURSOR + 1], NODESIM_WORD_BYTES, "%.*s", (int)cursor.text.n, cursor.text.p);
    return true;
}

static void return_deletion(struct nodesim *s, const struct nodesim_client *c, struct slice reply)
{
    struct answer found;
    struct slice in = reply;
    if (answer_next(&in, &found) && found.type == ':' && found.n >= 0) {
        wgl_return_count(s->history, c->op, (int64_t)world_now(s->w), (uint32_t)found.n);
        s->result->deleted += (uint64_t)found.n;
    } else {
        world_fail(s->w, "the deletion of a range is answered %.*s", (int)reply.n, reply.n ? reply.p : "");
    }
}

void nodesim_range_return(struct nodesim *s, struct nodesim_client *c, struct slice reply)
{
    struct wgl_answer answers[NODESIM_LINE_KEYS];
    for (uint32_t i = 0; i < c->n_parts; i++) answers[i] = (struct wgl_answer){.nil = true};
    if (c->write) return_deletion(s, c, reply);
    else if (take_pairs(c, reply, answers)) wgl_return(s->history, c->op, (int64_t)world_now(s->w), answers);
    else world_fail(s->w, "a range is answered %.*s", (int)reply.n, reply.n ? reply.p : "");
    s->result->ranges++;
    s->result->unset_ranges += !nodesim_topology_is_set(s);
    s->result->pages += c->page > 0;
}
