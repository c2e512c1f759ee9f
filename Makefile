# Sherd. `make run` starts a server, `make test` runs every test; both install what they need first.
#
#   make            build/sherd
#   make run        install, build, start on 127.0.0.1:6379 with data in ./data; options by ARGS="--workers 4 ..."
#   make cluster    three nodes of a cluster on this machine, to try: ends with Ctrl-C; options by ARGS="--nodes 5 --port 7001"
#   make test       install, build, unit tests, fuzz corpora, integration tests, sanitizer build too
#   make unit       unit tests only              make unit T=table   one of them
#   make replay     fuzz corpora only            make pytest P="-k smoke"   integration tests only
#   make crash      kill -9 at random moments, 245 times, and nothing that was promised is missing; make crash ARGS="--seed 7"
#   make sim        Raft groups, and whole nodes, in a simulated world, by seed: 1000 of each; make sim SEED=7 tells the story of one, SEEDS=50 FROM=1 chooses, ARGS="--only nodes" too
#   make check-all  test + TSan (units and the server), both compilers, clang-tidy, every fuzzer for a minute: takes an hour
#   make fuzz-build the libFuzzer programs under build/fuzz/
#   make bench      side by side with real peers; writes docs/bench/ (bench/bench.mk)
#   make python     the wheel of the Python package (python/README.md)      make pytest-python   its tests
#   make test-engines  the writers for Spark and Ray, which come from PyPI
#   make lib        build/lib: libsherd.so, header and pkg-config file, for other programs; make install-lib PREFIX=/usr/local
#   make docs       docs/COMMANDS.md and docs/CONFIGURATION.md from the program's own tables
#
# BUILD=normal|asan|tsan|fuzz|pic picks the flavour; each has its own folder under build/.
# scripts/packages is the one list of the Debian packages that all this needs.

BUILD ?= normal
CSTD = -std=gnu17
WARN = -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wundef -Wvla -Wno-unused-parameter -Wno-format-zero-length -Werror
OPT = -O2 -g -fno-omit-frame-pointer -fno-plt
ARCH ?= $(shell uname -m | grep -q x86_64 && echo -march=x86-64-v2)
INC = -Isrc -Iinclude -D_GNU_SOURCE
LIBS = -Wl,--as-needed -lcurl -lcrypto -lsqlite3 -ljansson -lyaml -ledit -luring -lisal -llz4 -lzstd -lpcre2-8 -lm -pthread
PYTHON = /usr/bin/python3
# The Raft engine, for programs with a server in them; the archive, because the parts of it that are used need no library of their own.
ifneq ($(BUILD),pic)
LIBS += -l:libraft.a
endif

ifeq ($(BUILD),normal)
O = build
LIBS += -Wl,--no-as-needed -ljemalloc -Wl,--as-needed
# Optimised across files where the compiler is gcc: a request passes through eight of them. Only the program pays for it at link
# time; the objects carry ordinary code too, for the many test programs.
ifneq ($(findstring gcc,$(shell $(CC) --version 2>/dev/null | head -1; $(CC) -v 2>&1 | tail -1)),)
LTO = -flto -ffat-lto-objects
LTO_LINK = -O2 -flto=auto
endif
else ifeq ($(BUILD),asan)
O = build/asan
SAN = -fsanitize=address,undefined -fno-sanitize-recover=undefined
OPT = -O1 -g -fno-omit-frame-pointer
else ifeq ($(BUILD),tsan)
O = build/tsan
SAN = -fsanitize=thread
OPT = -O1 -g -fno-omit-frame-pointer
else ifeq ($(BUILD),fuzz)
O = build/fuzz
CC = clang
SAN = -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
OPT = -O1 -g -fno-omit-frame-pointer
else ifeq ($(BUILD),pic)
# For what is loaded into other programs: the Python extension, libsherd.so.
O = build/pic
OPT += -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections
else
$(error BUILD=$(BUILD): use normal, asan, tsan, fuzz or pic)
endif

CFLAGS = $(CSTD) $(WARN) $(OPT) $(LTO) $(ARCH) $(SAN) $(INC) -DSHERD_BUILD=\"$(BUILD)\"
LDFLAGS = $(SAN)

# What is loaded into other programs has no server in it.
FOLDERS = base io cel route resp store log dump cold object snapshot $(if $(filter pic,$(BUILD)),,command shard cluster server)
LIB_SRC = $(foreach d,$(FOLDERS),$(wildcard src/$(d)/*.c))
CLI_SRC = $(wildcard src/cli/*.c)
LIB_OBJ = $(LIB_SRC:src/%.c=$(O)/obj/%.o)
CLI_OBJ = $(CLI_SRC:src/%.c=$(O)/obj/%.o)
TESTS = $(patsubst tests/unit/%.c,$(O)/tests/%,$(wildcard tests/unit/test_*.c))
TOOLS = $(patsubst tests/tools/%.c,$(O)/tools/%,$(wildcard tests/tools/*.c))
SIM_SRC = $(wildcard tests/sim/*.c)
SIM_OBJ = $(SIM_SRC:tests/sim/%.c=$(O)/sim/%.o)
FUZZ_SRC = $(wildcard tests/fuzz/fuzz_*.c)
REPLAYS = $(FUZZ_SRC:tests/fuzz/%.c=$(O)/replay/%)
FUZZERS = $(FUZZ_SRC:tests/fuzz/%.c=$(O)/fuzzers/%)

all: $(O)/sherd

$(O)/libsherd.a: $(LIB_OBJ)
	@rm -f $@
	@$(if $(LTO),gcc-ar,$(AR)) rcs $@ $^

$(O)/sherd: $(CLI_OBJ) $(O)/libsherd.a
	@echo "  link $@"
	@$(CC) $(LDFLAGS) $(LTO_LINK) -o $@ $(CLI_OBJ) $(O)/libsherd.a $(LIBS)

$(O)/obj/%.o: src/%.c
	@mkdir -p $(dir $@)
	@echo "  cc   $<"
	@$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(O)/tests/%: tests/unit/%.c $(O)/libsherd.a
	@mkdir -p $(dir $@)
	@echo "  cc   $<"
	@$(CC) $(CFLAGS) -fno-lto -Itests/unit -Itests/sim -MMD -MP -o $@ $< $(filter %.o,$^) $(LDFLAGS) $(O)/libsherd.a -lcmocka $(LIBS)

# Parts of the simulator, and the tests of its own parts.
$(O)/sim/%.o: tests/sim/%.c
	@mkdir -p $(dir $@)
	@echo "  cc   $<"
	@$(CC) $(CFLAGS) -fno-lto -Itests/sim -MMD -MP -c -o $@ $<

$(O)/tests/test_wgl: $(O)/sim/wgl.o $(O)/sim/wglhistory.o $(O)/sim/intern.o

# Programs that integration tests run.
$(O)/tools/%: tests/tools/%.c $(O)/libsherd.a
	@mkdir -p $(dir $@)
	@echo "  cc   $<"
	@$(CC) $(CFLAGS) -fno-lto -Itests/sim -MMD -MP -MF $@.d -o $@ $< $(filter %.o,$^) $(LDFLAGS) $(O)/libsherd.a $(LIBS)

$(O)/tools/linear: $(O)/sim/wgl.o $(O)/sim/wglhistory.o $(O)/sim/intern.o

$(O)/sim/sim: $(SIM_OBJ) $(O)/libsherd.a
	@echo "  link $@"
	@$(CC) $(LDFLAGS) -fno-lto -o $@ $(SIM_OBJ) $(O)/libsherd.a $(LIBS)

# A fuzz target twice: as a libFuzzer program (BUILD=fuzz), and with a main that replays its corpus, which needs no clang.
$(O)/fuzzers/%: tests/fuzz/%.c $(O)/libsherd.a
	@mkdir -p $(dir $@)
	@echo "  cc   $< (fuzzer)"
	@$(CC) $(CFLAGS) -fno-lto -MMD -MP -o $@ $< -fsanitize=fuzzer $(LDFLAGS) $(O)/libsherd.a $(LIBS)

$(O)/replay/%: tests/fuzz/%.c tests/fuzz/replay.c $(O)/libsherd.a
	@mkdir -p $(dir $@)
	@echo "  cc   $< (replay)"
	@$(CC) $(CFLAGS) -fno-lto -MMD -MP -MF $@.d -o $@ $< tests/fuzz/replay.c $(LDFLAGS) $(O)/libsherd.a $(LIBS)

-include $(shell find $(O) -name '*.d' 2>/dev/null)

run: packages-build
	@$(MAKE) --no-print-directory all
	$(O)/sherd serve --bind 127.0.0.1 --port 6379 --data ./data $(ARGS)

cluster: packages-build
	@$(MAKE) --no-print-directory all
	$(O)/sherd cluster demo $(ARGS)

unit: $(if $(T),$(O)/tests/test_$(T),$(TESTS))
	@scripts/unit-tests $^

replay: $(if $(T),$(O)/replay/fuzz_$(T),$(REPLAYS))
	@scripts/replay-corpora $^

pytest: $(O)/sherd $(TOOLS)
	@SHERD_BIN=$(CURDIR)/$(O)/sherd $(PYTHON) -m pytest -q tests/integration $(P)

crash: packages-build $(O)/sherd
	@SHERD_BIN=$(CURDIR)/$(O)/sherd $(PYTHON) tests/crash/crash.py $(ARGS)

SEEDS ?= 1000
FROM ?= 1
sim: $(O)/sim/sim
	@$(O)/sim/sim $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --from $(FROM)) $(ARGS)

test: packages-build packages-python packages-test
	@$(PYTHON) scripts/run-tests

check-all: packages-build packages-python packages-test packages-check
	@$(PYTHON) scripts/run-tests --all

# Everything that a test run of one flavour needs.
test-build: $(O)/sherd $(TESTS) $(REPLAYS) $(TOOLS) $(O)/sim/sim

fuzz-build: packages-check
	@$(MAKE) --no-print-directory BUILD=fuzz fuzzers

fuzzers: $(FUZZERS)

tidy:
	@printf '%s\n' $(LIB_SRC) $(CLI_SRC) | xargs -P 2 -n 1 scripts/tidy $(CSTD) $(ARCH) $(INC) -DSHERD_BUILD=\"tidy\"

docs: $(O)/sherd
	$(O)/sherd commands --markdown > docs/COMMANDS.md
	$(O)/sherd serve --help-markdown > docs/CONFIGURATION.md

# The wheel of the Python package, and the same unpacked under build/python/site for tests.
python: packages-build packages-python
	@$(MAKE) --no-print-directory BUILD=pic wheel

WHEEL = build/python
wheel: $(O)/libsherd.a
	@rm -rf $(WHEEL)/site $(WHEEL)/*.whl
	@mkdir -p $(WHEEL)/site
	@echo "  py   $(WHEEL)/sherd-*.whl"
	@cd python && SHERD_LIB=$(CURDIR)/$(O)/libsherd.a SHERD_LIBS="$(LIBS)" SHERD_CFLAGS="$(CSTD) $(WARN)" $(PYTHON) -W ignore setup.py -q \
		egg_info --egg-base $(CURDIR)/$(WHEEL) build -b $(CURDIR)/$(WHEEL)/build bdist_wheel -d $(CURDIR)/$(WHEEL)
	@$(PYTHON) -m zipfile -e $(WHEEL)/sherd-*.whl $(WHEEL)/site

pytest-python: python
	@PYTHONPATH=$(CURDIR)/$(WHEEL)/site $(PYTHON) -m pytest -q -p no:cacheprovider python/tests $(P)

# Spark and Ray come from PyPI into an environment of their own.
test-engines: python
	@scripts/test-engines

# libsherd for other programs. Everything is compiled hidden; what include/sherd.h declares is all that can be seen.
lib: packages-build
	@$(MAKE) --no-print-directory BUILD=pic shared-lib

PREFIX ?= /usr/local
LIB_DIR = build/lib
SONAME = libsherd.so.0
shared-lib: $(LIB_DIR)/$(SONAME) $(LIB_DIR)/sherd.pc
	@ln -sf $(SONAME) $(LIB_DIR)/libsherd.so
	@cp include/sherd.h $(LIB_DIR)/

$(LIB_DIR)/$(SONAME): $(O)/libsherd.a
	@mkdir -p $(dir $@)
	@echo "  link $@"
	@$(CC) -shared -Wl,-soname,$(SONAME) -Wl,--no-undefined -Wl,--gc-sections -o $@ $(O)/obj/snapshot/sherd.o $(O)/libsherd.a $(LIBS)

$(LIB_DIR)/sherd.pc: include/sherd.pc.in src/base/version.h Makefile
	@mkdir -p $(dir $@)
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e "s|@VERSION@|$$(sed -n 's/.*SHERD_VERSION "\(.*\)"/\1/p' src/base/version.h)|" $< > $@

install-lib: lib
	install -D -m 755 $(LIB_DIR)/$(SONAME) $(DESTDIR)$(PREFIX)/lib/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(PREFIX)/lib/libsherd.so
	install -D -m 644 include/sherd.h $(DESTDIR)$(PREFIX)/include/sherd.h
	install -D -m 644 $(LIB_DIR)/sherd.pc $(DESTDIR)$(PREFIX)/lib/pkgconfig/sherd.pc

packages-%:
	@scripts/install-packages $*

clean:
	rm -rf build

.PHONY: all run cluster unit replay sim pytest lib shared-lib install-lib python wheel pytest-python test-engines crash test check-all test-build fuzz-build fuzzers tidy docs clean
.DELETE_ON_ERROR:

-include bench/bench.mk
