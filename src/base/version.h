/* The versions that Sherd shows: its own, and the Redis whose commands and replies it speaks. */
#pragma once

#define SHERD_VERSION "0.1.0"
#define REDIS_VERSION "7.2.4"

/* Set by the Makefile: normal, asan, tsan or fuzz. */
#ifndef SHERD_BUILD
#define SHERD_BUILD "unknown"
#endif
