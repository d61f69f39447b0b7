// A plugin for QEMU's user-mode emulation of arm64: it counts how often each instruction word is executed, and prints the words and
// their counts at the end, in hexadecimal and decimal. One thread's counts may be lost to another's: run programs with one.
//
// The declarations are those of QEMU's interface for plugins that it needs, version 1, which QEMU 4.2 to 8 and later offer.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { INLINE_ADD_U64 };
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, int op, void *counter, uint64_t by);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

// words is a table with open addressing, which never moves: translated code points into it.
enum { slots = 1 << 22 };
static struct { uint32_t word; uint32_t used; uint64_t count; } words[slots];

static uint64_t *counter(uint32_t word) {
	uint32_t at = word * 2654435761u % slots;
	for (int tries = 0; tries < slots; tries++, at = (at + 1) % slots) {
		if (!words[at].used) {
			words[at].used = 1;
			words[at].word = word;
		}
		if (words[at].word == word)
			return &words[at].count;
	}
	abort();
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint32_t word;
		memcpy(&word, qemu_plugin_insn_data(insn), sizeof word);
		qemu_plugin_register_vcpu_insn_exec_inline(insn, INLINE_ADD_U64, counter(word), 1);
	}
}

static void finished(qemu_plugin_id_t id, void *path) {
	FILE *out = fopen(path, "w");
	if (!out) {
		perror(path);
		return;
	}
	for (int i = 0; i < slots; i++)
		if (words[i].count)
			fprintf(out, "%08x %llu\n", words[i].word, (unsigned long long)words[i].count);
	fclose(out);
}

// The one argument is out=PATH, the file that the counts go to.
__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
	if (argc != 1 || strncmp(argv[0], "out=", 4)) {
		fprintf(stderr, "count: the argument is out=PATH\n");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, finished, strdup(argv[0] + 4));
	return 0;
}
