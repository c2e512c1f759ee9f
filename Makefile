# Sherd. `make run` starts a server, `make test` runs every test; both install what they need first.
#
#   make            build/sherd
#   make run        install, build, start on 127.0.0.1:6379 with data in ./data
#   make test       install, build, unit + integration tests, sanitizer build too
#   make unit       unit tests of the normal build only        make unit T=table   one of them
#   make check-all  test + TSan, both compilers, clang-tidy, fuzzers
#   make bench      side by side with real peers; writes docs/bench/
#
# BUILD=normal|asan|tsan picks the flavour; each has its own folder under build/.

CC ?= cc
BUILD ?= normal
CSTD = -std=gnu17
WARN = -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wundef -Wvla -Wno-unused-parameter -Werror
OPT = -O2 -g -fno-omit-frame-pointer -fno-plt
ARCH ?= $(shell uname -m | grep -q x86_64 && echo -march=x86-64-v2)
INC = -Isrc -D_GNU_SOURCE
LIBS = -luring -llz4 -lisal -lm -pthread

ifeq ($(BUILD),normal)
O = build
LIBS += -ljemalloc
endif
ifeq ($(BUILD),asan)
O = build/asan
SAN = -fsanitize=address,undefined -fno-sanitize-recover=undefined
OPT = -O1 -g -fno-omit-frame-pointer
endif
ifeq ($(BUILD),tsan)
O = build/tsan
SAN = -fsanitize=thread
OPT = -O1 -g -fno-omit-frame-pointer
endif

CFLAGS = $(CSTD) $(WARN) $(OPT) $(ARCH) $(SAN) $(INC) -DSHERD_BUILD=\"$(BUILD)\"
LDFLAGS = $(SAN)

FOLDERS = base io route resp store command shard server
LIB_SRC = $(foreach d,$(FOLDERS),$(wildcard src/$(d)/*.c))
CLI_SRC = $(wildcard src/cli/*.c)
TEST_SRC = $(wildcard tests/unit/test_*.c)
LIB_OBJ = $(LIB_SRC:src/%.c=$(O)/obj/%.o)
CLI_OBJ = $(CLI_SRC:src/%.c=$(O)/obj/%.o)
TESTS = $(TEST_SRC:tests/unit/%.c=$(O)/tests/%)

all: $(O)/sherd

$(O)/libsherd.a: $(LIB_OBJ)
	@rm -f $@
	@$(AR) rcs $@ $^

$(O)/sherd: $(CLI_OBJ) $(O)/libsherd.a
	@echo "  link $@"
	@$(CC) $(LDFLAGS) -o $@ $(CLI_OBJ) $(O)/libsherd.a $(LIBS)

$(O)/obj/%.o: src/%.c
	@mkdir -p $(dir $@)
	@echo "  cc   $<"
	@$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(O)/tests/%: tests/unit/%.c $(O)/libsherd.a
	@mkdir -p $(dir $@)
	@echo "  cc   $<"
	@$(CC) $(CFLAGS) -Itests/unit -MMD -MP -o $@ $< $(LDFLAGS) $(O)/libsherd.a -lcmocka $(LIBS)

-include $(shell find $(O) -name '*.d' 2>/dev/null)

unit: $(if $(T),$(O)/tests/test_$(T),$(TESTS))
	@scripts/unit-tests $^

clean:
	rm -rf build

.PHONY: all unit clean
.DELETE_ON_ERROR:
