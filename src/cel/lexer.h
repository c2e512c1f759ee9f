/* The text of an expression as tokens, one after the other; literals are decoded. */
#pragma once
#include "cel/source.h"

enum token_kind {
    TOKEN_END,
    TOKEN_NAME,   /* text; keywords have kinds of their own, reserved words do not (lexer_reserved) */
    TOKEN_QUOTED, /* `text` */
    TOKEN_LITERAL, /* value: int, uint, double, string, bytes */
    TOKEN_TRUE,
    TOKEN_FALSE,
    TOKEN_NULL,
    TOKEN_IN,
    /* The rest is punctuation. */
    TOKEN_EQ,
    TOKEN_NE,
    TOKEN_LE,
    TOKEN_GE,
    TOKEN_LT,
    TOKEN_GT,
    TOKEN_AND,
    TOKEN_OR,
    TOKEN_DOT,
    TOKEN_COMMA,
    TOKEN_COLON,
    TOKEN_QUESTION,
    TOKEN_NOT,
    TOKEN_PLUS,
    TOKEN_MINUS,
    TOKEN_STAR,
    TOKEN_SLASH,
    TOKEN_PERCENT,
    TOKEN_LPAREN,
    TOKEN_RPAREN,
    TOKEN_LBRACKET,
    TOKEN_RBRACKET,
    TOKEN_LBRACE,
    TOKEN_RBRACE,
};

struct token {
    enum token_kind kind;
    uint32_t at, end;  /* offsets in the source */
    struct slice text; /* TOKEN_NAME, TOKEN_QUOTED */
    struct cel_value value;
    bool huge; /* 9223372036854775808: an int only with a minus before it */
};

struct lexer {
    struct source *source;
    uint32_t at;
};

/* Reads the next token; false with the source's error set if there is none to read. At the end it gives TOKEN_END for ever. */
bool lexer_next(struct lexer *l, struct token *t);

/* A word that the language keeps for itself: no variable may have it, a field may. */
bool lexer_reserved(struct slice name);

/* Decodes the string or bytes literal at l->at; in literal.c. */
bool lexer_text(struct lexer *l, struct token *t);
