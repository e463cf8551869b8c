package trace

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// packedText is an archive of files in their order.
func packedText(t testing.TB, files ...content) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, pack(&b, files))
	return b.Bytes()
}

// The limit counts everything that is packed: all files together, what is no file of the
// trace, and what follows the last file.
func TestUnpackedLimit(t *testing.T) {
	tr, err := fromText(good())
	require.NoError(t, err)
	whole, err := tr.Archive()
	require.NoError(t, err)
	unzipped := func(data []byte) int64 {
		r, err := Unpack(bytes.NewReader(data), DefaultUnpacked)
		require.NoError(t, err)
		var b bytes.Buffer
		n, err := b.ReadFrom(r)
		require.NoError(t, err)
		return n
	}
	size := unzipped(whole)
	back, err := ParseArchive(whole, size)
	require.NoError(t, err)
	require.Equal(t, tr.Events, back.Events)
	_, err = ParseArchive(whole, size-1)
	require.ErrorContains(t, err, "when unpacked")

	var tail bytes.Buffer
	z := gzip.NewWriter(&tail)
	_, err = z.Write(make([]byte, 4<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	zeros := strings.Repeat("0", 600<<10)
	for name, data := range map[string][]byte{
		"files, each below it":   packedText(t, content{eventsFile, []byte(zeros)}, content{appsFile, []byte(zeros)}),
		"a file that is skipped": packedText(t, content{"README", []byte(zeros + zeros)}),
		"behind the end":         append(bytes.Clone(whole), tail.Bytes()...),
	} {
		_, err := ParseArchive(data, 1<<20)
		var over *UnpackedError
		require.ErrorAs(t, err, &over, name)
		require.ErrorContains(t, err, "more than 1.0 MiB when unpacked", name)
	}
}

// A sparse file may announce holes of any size that no byte of the archive is for.
func TestSparseFile(t *testing.T) {
	records := ""
	for _, r := range []string{"GNU.sparse.major=0", "GNU.sparse.minor=1", "GNU.sparse.size=1099511627776", "GNU.sparse.numblocks=0", "GNU.sparse.map="} {
		n := len(r) + len("NN \n")
		records += fmt.Sprintf("%d %s\n", n, r)
	}
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "pax", Size: int64(len(records)), Format: tar.FormatUSTAR}))
	_, err := w.Write([]byte(records))
	require.NoError(t, err)
	require.NoError(t, w.Flush())
	head := raw.Bytes()[:512]
	head[156] = tar.TypeXHeader // the package writes none of these records
	copy(head[148:156], "        ")
	sum := 0
	for _, b := range head {
		sum += int(b)
	}
	copy(head[148:156], fmt.Sprintf("%06o\x00 ", sum))
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: eventsFile, Format: tar.FormatUSTAR}))
	require.NoError(t, w.Close())
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err = raw.WriteTo(z)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	_, err = ParseArchive(zipped.Bytes(), DefaultUnpacked)
	require.ErrorContains(t, err, "unpacking events.csv: more than 1.0 GiB when unpacked")
}

// What would be one row, or one manifest, of any length is refused after 1 or 4 MiB.
func TestLongRows(t *testing.T) {
	long := strings.Repeat("x", maxRow+1<<17) // what was read ahead does not count
	for name, c := range map[string]struct{ file, text, want string }{
		"no header":       {eventsFile, strings.Repeat("\n", 2*maxRow), "events.csv:1: no header line within 1.0 MiB"},
		"a long header":   {appsFile, long, "apps.csv:1: no header line within 1.0 MiB"},
		"empty lines":     {eventsFile, good()[eventsFile] + strings.Repeat("\n", 2*maxRow), "the row after it has more than 1.0 MiB"},
		"a long row":      {eventsFile, "time,kind,request,app,count\n0,create," + long, "events.csv:1: the row after it has more than 1.0 MiB"},
		"a quoted field":  {rulesFile, "app,other,max\n\"" + strings.Repeat("x\n", maxRow), "rules.csv:1: the row after it has more than 1.0 MiB"},
		"a long manifest": {manifestFile, "name: " + strings.Repeat("x", maxManifest+1<<17), "trace.yaml: yaml: input error: longer than 4.0 MiB"},
	} {
		texts := good()
		texts[c.file] = c.text
		_, err := fromText(texts)
		require.ErrorContains(t, err, c.want, name)
	}
}

func FuzzArchive(f *testing.F) {
	dir := f.TempDir()
	for name, text := range good() {
		require.NoError(f, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	tr, err := Load(dir)
	require.NoError(f, err)
	data, err := tr.Archive()
	require.NoError(f, err)
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add(packedText(f, content{"a/trace.yaml", []byte("fleet: open")}, content{"b/../trace.yaml", nil}))
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1 << 20
		tr, err := ParseArchive(data, limit)
		if err == nil {
			requireRoundTrip(t, tr)
		}
		// The same behind gzip, whose checksum the fuzzer cannot guess.
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		_, err = z.Write(data)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		if tr, err = ParseArchive(zipped.Bytes(), limit); err == nil {
			requireRoundTrip(t, tr)
		}
	})
}
