package convert

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// write makes files below a new folder; a name ending in .gz is compressed.
func write(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		content := []byte(text)
		if filepath.Ext(name) == ".gz" {
			var buf bytes.Buffer
			w := gzip.NewWriter(&buf)
			_, err := w.Write(content)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			content = buf.Bytes()
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	return dir
}

// convert collects the traces, each through files and back.
func convert(t *testing.T, format string, opt Options, paths ...string) (traces []*trace.Trace) {
	t.Helper()
	err := Convert(format, paths, opt, func(tr *trace.Trace, of int) error {
		dir := filepath.Join(t.TempDir(), "trace")
		require.NoError(t, tr.Write(dir))
		back, err := trace.Load(dir)
		require.NoError(t, err)
		require.Equal(t, back.Events, tr.Events)
		traces = append(traces, back)
		require.LessOrEqual(t, len(traces), of)
		return nil
	})
	require.NoError(t, err)
	return traces
}

func convertError(format string, paths ...string) error {
	return Convert(format, paths, Defaults(), func(*trace.Trace, int) error { return nil })
}

// converted collects the traces as they come, for sets that are too large for a
// detour through files.
func converted(t *testing.T, format string, opt Options, paths ...string) (traces []*trace.Trace) {
	t.Helper()
	require.NoError(t, Convert(format, paths, opt, func(tr *trace.Trace, _ int) error {
		traces = append(traces, tr)
		return nil
	}))
	return traces
}

// short is the beginning of a trace's digest: it changes with any change of a
// conversion.
func short(t *testing.T, tr *trace.Trace) string {
	t.Helper()
	_, whole, err := tr.Digests()
	require.NoError(t, err)
	return strings.TrimPrefix(whole, "sha256:")[:12]
}

// data is a folder of the public data sets. Tests on them need SIGMA_DATA; with
// it a missing folder fails.
func data(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("SIGMA_DATA")
	if root == "" {
		t.Skip("SIGMA_DATA is not set")
	}
	path := filepath.Join(root, name)
	_, err := os.Stat(path)
	require.NoError(t, err)
	return path
}

func TestUnknownFormat(t *testing.T) {
	require.ErrorContains(t, convertError("csv", "x"), `convert: unknown format "csv"; there are tianchi, openb, `)
}

func TestNoInput(t *testing.T) {
	require.EqualError(t, convertError("tianchi"), "convert tianchi: no file or folder given")
	require.ErrorIs(t, convertError("tianchi", filepath.Join(t.TempDir(), "none")), os.ErrNotExist)
	require.EqualError(t, convertError("tianchi", t.TempDir()), "convert tianchi: no file is named like app_resources")
	for format, want := range map[string]string{
		"openb":     "no file is named like node_list_gpu_node",
		"azure":     "no file is named like v1.dev.c2100000.txt, with lifetimes",
		"vbp":       "no file is named like *.vbp",
		"bppc":      "no file is named like BPPC*.txt",
		"funsearch": "no file is named like *.json",
	} {
		require.EqualError(t, convertError(format, t.TempDir()), "convert "+format+": "+want)
	}
}

func TestEmitErrorStops(t *testing.T) {
	dir := write(t, map[string]string{"a.json": `{"name":"A","instances":[{"capacity":5,"items":[1]},{"capacity":5,"items":[2]}]}`})
	calls := 0
	err := Convert("funsearch", []string{dir}, Options{}, func(*trace.Trace, int) error {
		calls++
		return os.ErrClosed
	})
	require.ErrorIs(t, err, os.ErrClosed)
	assert.Equal(t, 1, calls)
}

func ExampleFormats() {
	for _, f := range Formats()[:3] {
		fmt.Print(f.Name)
		f.Flags(&Options{}).VisitAll(func(option *flag.Flag) { fmt.Print(" --", option.Name) })
		fmt.Println()
	}
	// Output:
	// tianchi --apps --empty --instances --large-first --seed
	// openb --list --load --seed
	// azure --from --until
}
