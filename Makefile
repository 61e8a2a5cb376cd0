# Sluice.  `make` builds build/sluice; the targets below each have a sentence above them.
# Variants live in folders of their own: make asan, make tsan, make BUILD=dir CC=clang ...

ifeq ($(origin CC),default)
CC        = gcc
endif
BUILD    ?= build
PREFIX   ?= /usr/local
OPT      ?= -O2 -g
CFLAGS   ?= $(OPT)
PKGS      = liburing jansson libpcre2-8 libutf8proc
WARN      = -Wall -Wextra -Wshadow -Wconversion -Wvla -Wstrict-prototypes -Wmissing-prototypes
FLAGS     = -std=gnu11 -pthread -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno $(WARN) $(WERROR) $(SAN)
INCLUDES  = -D_GNU_SOURCE -Iinclude -Isrc $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LIBS      = $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm
# What the command alone links: the line editor, if it is there.
EDIT_LIBS = $(shell pkg-config --libs libedit 2>/dev/null)
LINK      = $(CC) $(CFLAGS) -pthread $(SAN) $(LDFLAGS)
VERSION   = $(shell sed -n 's/^.define SL_VERSION "\(.*\)"/\1/p' include/sluice.h)
SONAME    = libsluice.so.0

ROOMS     = base os quant store stream backend text model engine
LIB_SRC   = $(sort $(foreach r,$(ROOMS),$(shell find src/$(r) -name '*.c')))
CLI_SRC   = $(sort $(wildcard src/cli/*.c))
LIB_OBJ   = $(LIB_SRC:%.c=$(BUILD)/%.o)
CLI_OBJ   = $(CLI_SRC:%.c=$(BUILD)/%.o)
TEST_SRC  = $(sort $(wildcard tests/test_*.c))
TEST_BIN  = $(TEST_SRC:tests/%.c=$(BUILD)/tests/%)
TEST_HELP = $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(TEST_SRC),$(sort $(wildcard tests/*.c))))
LIBRARIES = $(BUILD)/libcli.a $(BUILD)/libsluice.a
FUZZ_SRC  = $(sort $(wildcard fuzz/fuzz_*.c))
REPLAY    = $(FUZZ_SRC:fuzz/%.c=$(BUILD)/fuzz/%)
MODELS   ?= $(BUILD)/models
SMOLLM2   = $(MODELS)/smollm2-135m-instruct-q4_1.gguf
JOBS     ?= $(shell nproc)
FUZZ_SECONDS ?= 60

# Builds the library and the command.
all: $(BUILD)/libsluice.a $(BUILD)/sluice

$(BUILD)/libsluice.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $(LIB_OBJ)

$(BUILD)/$(SONAME): $(LIB_OBJ)
	$(LINK) -shared -Wl,-soname,$(SONAME) -Wl,-z,defs -o $@ $(LIB_OBJ) $(LIBS)

$(BUILD)/libcli.a: $(CLI_OBJ)
	@rm -f $@
	$(AR) rcs $@ $(filter-out %/main.o,$(CLI_OBJ))

$(BUILD)/sluice: $(BUILD)/src/cli/main.o $(LIBRARIES)
	$(LINK) -o $@ $^ $(LIBS) $(EDIT_LIBS)

# Instruction sets are per file: *_avx2.c and *_avx512.c hold intrinsics and are chosen at run time.
$(BUILD)/%_avx2.o: ISA = -mavx2 -mfma -mf16c
$(BUILD)/%_avx512.o: ISA = -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c

$(BUILD)/src/cli/chat_line.o: QUIET = $(if $(EDIT_LIBS),-DCLI_HAVE_LIBEDIT $(shell pkg-config --cflags libedit))

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(INCLUDES) $(CFLAGS) $(FLAGS) $(ISA) $(QUIET) -MMD -MP -c -o $@ $<

$(BUILD)/libtests.a: $(TEST_HELP)
	@rm -f $@
	$(AR) rcs $@ $(TEST_HELP)

# cmocka's headers and the fixtures' arithmetic are no subject of these two warnings.
$(BUILD)/tests/%.o: QUIET = -Itests -Wno-missing-prototypes -Wno-conversion

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libtests.a $(LIBRARIES)
	$(LINK) -o $@ $^ $(LIBS) $(EDIT_LIBS) -lcmocka

# A fuzz target with a main that feeds it files, so that a corpus runs without a fuzzer.
$(BUILD)/fuzz/%.o: QUIET = -Wno-missing-prototypes

$(BUILD)/fuzz/%: $(BUILD)/fuzz/%.o $(BUILD)/fuzz/replay_main.o $(BUILD)/libsluice.a
	$(LINK) -o $@ $^ $(LIBS)

# Builds every C test, and the corpus replay of every fuzz target, without running them.
tests: $(TEST_BIN) $(REPLAY)

# Installs what the build needs, if it is missing (as root; else says what it would run).
deps:
	@tools/install_deps

# Fetches a small real model and lets it write, under a memory limit smaller than its file.
run: deps
	@$(MAKE) --no-print-directory -j$(JOBS) all
	tools/fetch_models $(MODELS) smollm2
	$(BUILD)/sluice run $(SMOLLM2) --memory 64M --greedy -n 64 --stats -p "The history of bread begins"
	@echo

# Sets up what is needed, then runs all tests; the last line counts them.
test: deps
	@$(MAKE) --no-print-directory -j$(JOBS) all tests
	@tools/fetch_models $(MODELS) smollm2 || echo "note: no real model can be fetched; its tests are skipped"
	@BUILD=$(BUILD) MODELS=$(MODELS) tests/run

# Runs the C tests and the fuzz corpus under the address and undefined-behaviour sanitizers.
asan: deps
	@$(MAKE) --no-print-directory -j$(JOBS) BUILD=build-asan OPT="-O1 -g" \
	    SAN="-fsanitize=address,undefined -fno-sanitize-recover=all" all tests
	@BUILD=build-asan MODELS=$(MODELS) tests/run c fuzz

# Runs the tests of what has threads under the thread sanitizer.
TSAN_TESTS = $(foreach t,pool io stream backend engine experts,$(wildcard tests/test_$(t)*.c tests/test_os_$(t)*.c))
tsan: deps
	@$(MAKE) --no-print-directory -j$(JOBS) BUILD=build-tsan OPT="-O1 -g" SAN="-fsanitize=thread" \
	    $(TSAN_TESTS:tests/%.c=build-tsan/tests/%)
	@BUILD=build-tsan MODELS=$(MODELS) tests/run c

# Fuzzes every parser of outside bytes for FUZZ_SECONDS each, starting from its corpus (needs clang).
fuzz:
	@$(MAKE) --no-print-directory -j$(JOBS) BUILD=build-fuzz CC=clang OPT="-O1 -g" ROOMS="base os quant store text" \
	    SAN="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all" build-fuzz/libsluice.a
	@for f in $(FUZZ_SRC:fuzz/fuzz_%.c=%); do echo "== $$f"; mkdir -p build-fuzz/found/$$f && \
	    clang $(INCLUDES) -O1 -g $(FLAGS) -Wno-missing-prototypes -fsanitize=fuzzer,address,undefined \
	        -o build-fuzz/fuzz_$$f fuzz/fuzz_$$f.c build-fuzz/libsluice.a $(LIBS) && \
	    build-fuzz/fuzz_$$f -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=build-fuzz/found/$$f/ \
	        build-fuzz/found/$$f fuzz/corpus/$$f || exit 1; done

# Proves the budget on a mixture larger than memory, MODEL=file.gguf: cgroups of 12, 25 and 50 % of it; root, half an hour.
proof: all
	tests/long/proof.py $(MODEL) --sluice $(BUILD)/sluice

# Measures the real model resident and streamed at half its size, and sets both against the machine's limits.
bench: all
	tools/fetch_models $(MODELS) smollm2
	$(BUILD)/sluice bench $(SMOLLM2)
	$(BUILD)/sluice bench $(SMOLLM2) --memory 64M

# Checks the rooms: who includes whom, where intrinsics, file I/O and exits may stand, which names the library exports.
check-layout:
	@tools/check_layout $(wildcard $(BUILD)/libsluice.a)

# Puts header, libraries, pkg-config file, command and man page below DESTDIR and PREFIX.
install: all $(BUILD)/$(SONAME)
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,include lib/pkgconfig bin share/man/man1)
	install -m 644 include/sluice.h $(DESTDIR)$(PREFIX)/include/
	install -m 644 $(BUILD)/libsluice.a $(DESTDIR)$(PREFIX)/lib/
	install -m 755 $(BUILD)/$(SONAME) $(DESTDIR)$(PREFIX)/lib/libsluice.so.$(VERSION)
	ln -sf libsluice.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(PREFIX)/lib/libsluice.so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@PKGS@|$(PKGS)|' packaging/sluice.pc.in \
	    > $(DESTDIR)$(PREFIX)/lib/pkgconfig/sluice.pc
	install -m 755 $(BUILD)/sluice $(DESTDIR)$(PREFIX)/bin/
	install -m 644 docs/sluice.1 $(DESTDIR)$(PREFIX)/share/man/man1/

# Prints how long the functions are: median, ninth in ten, longest (needs universal-ctags).
stats:
	@tools/function_lengths $(LIB_SRC) $(CLI_SRC)

# Tells which files clang-format would change (needs clang-format).
format-check:
	@clang-format --dry-run $(LIB_SRC) $(CLI_SRC) $(wildcard include/*.h src/*/*.h) 2>&1 | grep -o '^[^:]*' | sort | uniq -c

# Removes everything that was built, models included.
clean:
	rm -rf build build-asan build-tsan build-fuzz

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

.PHONY: all tests deps run test asan tsan fuzz proof bench check-layout install stats format-check clean
.DELETE_ON_ERROR:
.SECONDARY:
