#include "cel/parser.h"

#include "cel/lexer.h"
#include "cel/macros.h"
#include "cel/nodes.h"
#include "cel/utf8.h"

/* Expr        = Binary(1) ["?" Binary(1) ":" Expr]
 * Binary(n)   = operators of the table below, all left-associative, n being the weakest that is taken
 * Unary       = {"!"} Member | {"-"} Member
 * Member      = Primary {"." name ["(" args ")"] | "[" Expr "]"}
 * Primary     = literal | ["."] name ["(" args ")"] | "(" Expr ")" | "[" args "]" | "{" entries "}"
 *
 * A function gives NULL once the source has its error; whoever gets NULL passes it on. */

struct parser {
    struct source *source;
    struct lexer lexer;
    struct token token; /* the next one */
    int depth;          /* of calls of parse_expr and parse_unary: bounds the stack */
    bool extensions;
};

/* Arguments, elements and entries while they are collected. */
struct nodes {
    struct node **items;
    size_t count, cap;
};

static struct node *parse_expr(struct parser *p);

static void advance(struct parser *p)
{
    if (!lexer_next(&p->lexer, &p->token)) p->token.kind = TOKEN_END;
}

static bool accept(struct parser *p, enum token_kind kind)
{
    if (p->token.kind != kind) return false;
    advance(p);
    return true;
}

static struct node *fail_here(struct parser *p, const char *wanted)
{
    if (p->token.kind == TOKEN_END) {
        source_fail(p->source, p->token.at, "expected %s, found the end of the expression", wanted);
    } else {
        source_fail(p->source, p->token.at, "expected %s, found '%.*s'", wanted,
                    (int)(p->token.end - p->token.at > 32 ? 32 : p->token.end - p->token.at),
                    p->source->text.p + p->token.at);
    }
    return NULL;
}

static bool expect(struct parser *p, enum token_kind kind, const char *wanted)
{
    if (accept(p, kind)) return !p->source->failed;
    fail_here(p, wanted);
    return false;
}

static void collect(struct parser *p, struct nodes *list, struct node *n)
{
    if (list->count == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 4;
        struct node **items = scratch_alloc(p->source->arena, cap * sizeof *items);
        if (list->count) memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->cap = cap;
    }
    list->items[list->count++] = n;
}

/* Expressions with commas between them, up to the closing token; a comma may stand before it if `trailing`. */
static bool parse_list(struct parser *p, struct nodes *list, enum token_kind close, const char *close_text, bool trailing)
{
    while (!(list->count == 0 || trailing) || p->token.kind != close) {
        struct node *n = parse_expr(p);
        if (!n) return false;
        collect(p, list, n);
        if (!accept(p, TOKEN_COMMA)) break;
    }
    return expect(p, close, close_text);
}

/* ---- primaries */

/* The call of a name or member; nodes->items[0] is the target of a member. The open parenthesis has been read. */
static struct node *parse_call(struct parser *p, struct slice name, uint32_t at, struct node *target, bool absolute)
{
    struct nodes args = {0};
    if (!parse_list(p, &args, TOKEN_RPAREN, "')'", false)) return NULL;
    struct macro_call call = {.name = name, .at = at, .target = target, .args = args.items, .count = args.count};
    struct node *expanded;
    if (!absolute && macros_expand(p->source, &call, p->extensions, &expanded)) return expanded;

    struct nodes all = {0};
    if (target) collect(p, &all, target);
    for (size_t i = 0; i < args.count; i++) collect(p, &all, args.items[i]);
    struct node *n = nodes_new(p->source, NODE_CALL, at, all.items, all.count);
    if (!n) return NULL;
    n->name = name;
    n->member = target != NULL;
    n->absolute = absolute;
    return n;
}

static struct node *parse_name(struct parser *p, bool absolute)
{
    struct token t = p->token;
    if (t.kind != TOKEN_NAME) return fail_here(p, "a name");
    if (lexer_reserved(t.text)) {
        source_fail(p->source, t.at, "'%.*s' is a reserved word", (int)t.text.n, t.text.p);
        return NULL;
    }
    advance(p);
    if (p->token.kind == TOKEN_LPAREN) {
        uint32_t at = p->token.at;
        advance(p);
        return parse_call(p, t.text, at, NULL, absolute);
    }
    struct node *n = nodes_new(p->source, NODE_NAME, t.at, NULL, 0);
    n->name = t.text;
    n->absolute = absolute;
    return n;
}

static struct node *parse_map(struct parser *p, uint32_t at)
{
    struct nodes entries = {0};
    while (p->token.kind != TOKEN_RBRACE) {
        for (int side = 0; side < 2; side++) {
            struct node *n = parse_expr(p);
            if (!n) return NULL;
            collect(p, &entries, n);
            if (side == 0 && !expect(p, TOKEN_COLON, "':'")) return NULL;
        }
        if (!accept(p, TOKEN_COMMA)) break;
    }
    if (!expect(p, TOKEN_RBRACE, "'}'")) return NULL;
    return nodes_new(p->source, NODE_MAP, at, entries.items, entries.count);
}

static struct node *parse_literal(struct parser *p, bool negative)
{
    struct token t = p->token;
    if (t.huge && !negative) {
        source_fail(p->source, t.at, "integer does not fit into 64 bits");
        return NULL;
    }
    if (negative && t.value.kind == CEL_INT && !t.huge) t.value.integer = -t.value.integer;
    if (negative && t.value.kind == CEL_DOUBLE) t.value.real = -t.value.real;
    advance(p);
    return nodes_const(p->source, t.at, t.value);
}

static struct node *parse_primary(struct parser *p)
{
    uint32_t at = p->token.at;
    switch (p->token.kind) {
    case TOKEN_LITERAL: return parse_literal(p, false);
    case TOKEN_TRUE: advance(p); return nodes_const(p->source, at, (struct cel_value){.kind = CEL_BOOL, .boolean = true});
    case TOKEN_FALSE: advance(p); return nodes_const(p->source, at, (struct cel_value){.kind = CEL_BOOL});
    case TOKEN_NULL: advance(p); return nodes_const(p->source, at, (struct cel_value){.kind = CEL_NULL});
    case TOKEN_NAME: return parse_name(p, false);
    case TOKEN_DOT: advance(p); return parse_name(p, true);
    case TOKEN_LBRACE: advance(p); return parse_map(p, at);
    case TOKEN_LPAREN: {
        advance(p);
        struct node *n = parse_expr(p);
        return n && expect(p, TOKEN_RPAREN, "')'") ? n : NULL;
    }
    case TOKEN_LBRACKET: {
        advance(p);
        struct nodes items = {0};
        if (!parse_list(p, &items, TOKEN_RBRACKET, "']'", true)) return NULL;
        return nodes_new(p->source, NODE_LIST, at, items.items, items.count);
    }
    default: return fail_here(p, "an expression");
    }
}

/* ---- members */

static struct node *parse_select(struct parser *p, struct node *operand)
{
    uint32_t dot = p->token.at;
    advance(p);
    struct token t = p->token;
    if (t.kind != TOKEN_NAME && t.kind != TOKEN_QUOTED) return fail_here(p, "a field name");
    advance(p);
    if (t.kind == TOKEN_NAME && p->token.kind == TOKEN_LPAREN) {
        uint32_t at = p->token.at;
        advance(p);
        return parse_call(p, t.text, at, operand, false);
    }
    struct node *n = nodes_new(p->source, NODE_SELECT, dot, &operand, 1);
    if (!n) return NULL;
    n->name = t.text;
    n->quoted = t.kind == TOKEN_QUOTED;
    return n;
}

static struct node *parse_index(struct parser *p, struct node *operand)
{
    uint32_t at = p->token.at;
    advance(p);
    struct node *index = parse_expr(p);
    if (!index || !expect(p, TOKEN_RBRACKET, "']'")) return NULL;
    return nodes_call(p->source, at, "_[_]", (struct node *[]){operand, index}, 2);
}

/* Fields, calls and indexes behind a primary. */
static struct node *parse_suffixes(struct parser *p, struct node *n)
{
    while (n) {
        if (p->token.kind == TOKEN_DOT) {
            n = parse_select(p, n);
        } else if (p->token.kind == TOKEN_LBRACKET) {
            n = parse_index(p, n);
        } else if (p->token.kind == TOKEN_LBRACE && (n->kind == NODE_NAME || n->kind == NODE_SELECT)) {
            source_fail(p->source, p->token.at, "messages are not supported; maps are: {\"name\": value}");
            return NULL;
        } else {
            break;
        }
    }
    return n;
}

/* ---- operators */

/* A minus directly before a number is part of it, so that the smallest int can be written. */
static struct node *parse_negated(struct parser *p)
{
    uint32_t at = p->token.at, count = 0;
    for (; p->token.kind == TOKEN_MINUS; count++) advance(p);
    struct node *n;
    if (p->token.kind == TOKEN_LITERAL && (p->token.value.kind == CEL_INT || p->token.value.kind == CEL_DOUBLE)) {
        n = parse_suffixes(p, parse_literal(p, true));
        count--;
    } else {
        n = parse_suffixes(p, parse_primary(p));
    }
    for (; n && count; count--) n = nodes_call(p->source, at + count - 1, "-_", &n, 1);
    return n;
}

static struct node *parse_unary(struct parser *p)
{
    if (p->token.kind == TOKEN_MINUS) return parse_negated(p);
    uint32_t at = p->token.at, count = 0;
    for (; p->token.kind == TOKEN_NOT; count++) advance(p);
    struct node *n = parse_suffixes(p, parse_primary(p));
    for (; n && count; count--) n = nodes_call(p->source, at + count - 1, "!_", &n, 1);
    return n;
}

static const struct binary {
    enum token_kind token;
    int strength;
    const char *function;
} binaries[] = {
    {TOKEN_OR, 1, NULL},    {TOKEN_AND, 2, NULL},   {TOKEN_EQ, 3, "_==_"},   {TOKEN_NE, 3, "_!=_"},    {TOKEN_LT, 3, "_<_"},
    {TOKEN_LE, 3, "_<=_"},  {TOKEN_GT, 3, "_>_"},   {TOKEN_GE, 3, "_>=_"},   {TOKEN_IN, 3, "@in"},     {TOKEN_PLUS, 4, "_+_"},
    {TOKEN_MINUS, 4, "_-_"}, {TOKEN_STAR, 5, "_*_"}, {TOKEN_SLASH, 5, "_/_"}, {TOKEN_PERCENT, 5, "_%_"},
};

static const struct binary *binary_of(enum token_kind kind, int weakest)
{
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++) {
        if (binaries[i].token == kind) return binaries[i].strength >= weakest ? &binaries[i] : NULL;
    }
    return NULL;
}

static struct node *parse_binary(struct parser *p, int weakest);

/* a && b && c is one node with three arguments: chains of conditions do not make the tree deep. */
static struct node *parse_chain(struct parser *p, const struct binary *op, struct node *first)
{
    struct nodes args = {0};
    collect(p, &args, first);
    uint32_t at = p->token.at;
    while (accept(p, op->token)) {
        struct node *n = parse_binary(p, op->strength + 1);
        if (!n) return NULL;
        collect(p, &args, n);
    }
    return nodes_new(p->source, op->token == TOKEN_AND ? NODE_AND : NODE_OR, at, args.items, args.count);
}

static struct node *parse_binary(struct parser *p, int weakest)
{
    struct node *left = parse_unary(p);
    const struct binary *op;
    while (left && (op = binary_of(p->token.kind, weakest))) {
        if (!op->function) {
            left = parse_chain(p, op, left);
            continue;
        }
        uint32_t at = p->token.at;
        advance(p);
        struct node *right = parse_binary(p, op->strength + 1);
        left = right ? nodes_call(p->source, at, op->function, (struct node *[]){left, right}, 2) : NULL;
    }
    return left;
}

static struct node *parse_expr(struct parser *p)
{
    if (++p->depth > CEL_DEPTH_MAX) {
        source_fail(p->source, p->token.at, "expression is nested more than %d levels deep", CEL_DEPTH_MAX);
        return NULL;
    }
    struct node *n = parse_binary(p, 1);
    if (n && p->token.kind == TOKEN_QUESTION) {
        uint32_t at = p->token.at;
        advance(p);
        struct node *yes = parse_binary(p, 1);
        struct node *no = yes && expect(p, TOKEN_COLON, "':'") ? parse_expr(p) : NULL;
        n = no ? nodes_new(p->source, NODE_COND, at, (struct node *[]){n, yes, no}, 3) : NULL;
    }
    p->depth--;
    return p->source->failed ? NULL : n;
}

struct node *parser_parse(struct source *source, bool extensions)
{
    struct parser p = {.source = source, .lexer = {.source = source}, .extensions = extensions};
    if (source->text.n > CEL_SOURCE_MAX) {
        source_fail(source, 0, "expression is longer than %d bytes", CEL_SOURCE_MAX);
        return NULL;
    }
    if (!utf8_valid(source->text)) {
        source_fail(source, 0, "expression is not UTF-8");
        return NULL;
    }
    advance(&p);
    struct node *n = parse_expr(&p);
    if (n && p.token.kind != TOKEN_END) n = fail_here(&p, "an operator");
    return source->failed ? NULL : n;
}
