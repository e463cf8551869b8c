package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// bomb writes a trace whose events are so many MiB of newlines.
func bomb(t *testing.T, path string, mib int) {
	t.Helper()
	pack := func(content []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(content)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		return b.Bytes()
	}
	var head bytes.Buffer
	w := tar.NewWriter(&head)
	add := func(name string, size int) {
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(size), Mode: 0o644}))
	}
	for name, text := range map[string]string{
		"trace.yaml": "dimensions: [cpu]\nfleet: open\n", "machines.csv": "machine,type,count,cpu\nm,,,1\n", "apps.csv": "app,cpu\na,1\n",
	} {
		add(name, len(text))
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
	}
	add("events.csv", mib<<20)
	// The parts of a gzip file are packed by themselves, so this takes no time.
	text := append(pack(head.Bytes()), bytes.Repeat(pack(bytes.Repeat([]byte("\n"), 1<<20)), mib)...)
	require.NoError(t, os.WriteFile(path, append(text, pack(make([]byte, 1024))...), 0o644))
}

// What is packed beyond the limit is refused with file and limit, and takes no memory; nor
// does what is no trace and packed below it.
func TestBombs(t *testing.T) {
	dir := t.TempDir()
	huge, large := filepath.Join(dir, "huge.tar.gz"), filepath.Join(dir, "large.tar.gz")
	bomb(t, huge, 3<<10)
	bomb(t, large, 1000)
	// The kernel counts for a new process what its parent had when it was made.
	idle := &process{args: []string{"sigma", "version"}}
	idle.start(t)
	require.NoError(t, <-idle.dead)
	most := max(200<<10, idle.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"loading trace " + huge + ": unpacking events.csv: more than 1.0 GiB when unpacked; --max-unpacked sets the limit", []string{"bound", "--effort", "0", "--trace", huge}},
		{"large.tar.gz: events.csv:1: no header line within 1.0 MiB", []string{"bound", "--effort", "0", "--trace", large}},
	} {
		p := &process{args: append([]string{"sigma"}, c.args...)}
		p.start(t)
		require.Error(t, <-p.dead)
		require.Equal(t, exitFailed, p.cmd.ProcessState.ExitCode(), p.out.String())
		require.Contains(t, p.out.String(), c.want)
		usage, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
		require.True(t, ok)
		t.Logf("%v: %d MiB, %v", c.args, usage.Maxrss>>10, p.cmd.ProcessState.UserTime())
		require.LessOrEqual(t, usage.Maxrss, most, "KiB")
	}
}
