package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWords disassembles every word of the files for arm64 and compares it with the comment behind it.
func TestWords(t *testing.T) {
	files, err := filepath.Glob("../kernel/*_arm64.s")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	word := regexp.MustCompile(`(?m)^\tWORD \$0x([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2}) // (.*)$`)
	want := map[string]string{}
	var bytesOf []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range word.FindAllStringSubmatch(string(text), -1) {
			key := fmt.Sprintf("0x%s 0x%s 0x%s 0x%s", m[4], m[3], m[2], m[1])
			if want[key] == "" {
				bytesOf = append(bytesOf, key)
				want[key] = m[5]
			}
			if want[key] != m[5] {
				t.Errorf("%s: %q and %q are one word", file, want[key], m[5])
			}
		}
	}
	mc := exec.Command("llvm-mc", "-disassemble", "-triple=aarch64", "-mattr=+v8.6a,+bf16,+i8mm,+dotprod")
	mc.Stdin = strings.NewReader(strings.Join(bytesOf, "\n"))
	var stderr bytes.Buffer
	mc.Stderr = &stderr
	out, err := mc.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v\n%s(llvm-mc is of the package llvm)", err, stderr.Bytes())
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if opcode, operands, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && !strings.HasPrefix(opcode, ".") {
			got = append(got, opcode+" "+operands)
		}
	}
	if len(got) != len(bytesOf) {
		t.Fatalf("%d words, of which llvm-mc knows %d", len(bytesOf), len(got))
	}
	for i, key := range bytesOf {
		if got[i] != want[key] {
			t.Errorf("%s is %q, written as %q", key, got[i], want[key])
		}
	}
	t.Logf("%d words", len(got))
}
