package convert

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// The limit counts all packed files of a conversion together.
func TestUnpackedLimit(t *testing.T) {
	instance := "1\n10\n1\n" + strings.Repeat(" ", 1<<20) + "5 1\n"
	dir := write(t, map[string]string{"a.vbp.gz": instance, "b.vbp.gz": instance})
	opt := Defaults()
	opt.MaxUnpacked = 2*int64(len(instance)) - 1
	err := Convert("vbp", []string{dir}, opt, func(*trace.Trace, int) error { return nil })
	require.ErrorContains(t, err, "b.vbp.gz: more than 2.0 MiB when unpacked")
	opt.MaxUnpacked++
	require.Len(t, convert(t, "vbp", opt, dir), 2)
}

// No public data set comes near the limit.
func TestDataSetsBelowLimit(t *testing.T) {
	sums := map[string]int64{} // by folder
	require.NoError(t, filepath.WalkDir(data(t, "."), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".gz") {
			return err
		}
		content, err := input{path: path, unpacked: &unpacked{limit: trace.DefaultUnpacked}}.read()
		sums[filepath.Base(filepath.Dir(path))] += int64(len(content))
		return err
	}))
	require.NotEmpty(t, sums)
	for set, sum := range sums {
		assert.Less(t, sum, int64(trace.DefaultUnpacked), set)
		t.Logf("%s: %d bytes", set, sum)
	}
}

func FuzzTar(f *testing.F) {
	dir := f.TempDir()
	tarball(f, dir, [][2]string{{"a.vbp", "1\n10\n1\n5 1\n"}})
	content, err := input{path: filepath.Join(dir, "instances.tar.gz"), unpacked: &unpacked{limit: 1 << 20}}.read()
	require.NoError(f, err)
	f.Add(content)
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "x.tar")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		_ = convertError("vbp", path)
	})
}
