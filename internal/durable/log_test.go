package durable_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/internal/durable/killtest"
)

type record struct {
	Name  string  `json:"name"`
	Value float64 `json:"value,omitempty"`
}

// line is a record as the log keeps it.
func line(name string) string { return fmt.Sprintf("{\"name\":%q}\n", name) }

// open opens a log and returns the records that were there.
func open(path string) (*durable.AppendLog[record], []record, error) {
	var there []record
	log, err := durable.OpenLog(path, durable.Format[record]{}, func(_ int, r record) error {
		there = append(there, r)
		return nil
	})
	return log, there, err
}

func mustOpen(t testing.TB, path string) (*durable.AppendLog[record], []record) {
	t.Helper()
	log, there, err := open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	return log, there
}

func TestAppendLogKilledAtEachStep(t *testing.T) {
	old, fresh := []record{{Name: "a"}, {Name: "b"}}, []record{{Name: "c"}, {Name: "d"}}
	kills := killtest.EachStep(t,
		func(dir string) {
			put(t, filepath.Join(dir, "log"), `{"name":"a"}`+"\n"+`{"name":"b"}`+"\n"+`{"name":"cut o`)
		},
		func(dir string) error {
			log, _, err := open(filepath.Join(dir, "log"))
			if err != nil {
				return err
			}
			return errors.Join(log.Append(fresh[0]), log.AppendSync(fresh[1]), log.Close())
		},
		func(dir, next string) {
			log, there := mustOpen(t, filepath.Join(dir, "log"))
			all := append(append([]record(nil), old...), fresh...)
			require.GreaterOrEqual(t, len(there), len(old), "killed before: %s", next)
			require.Equal(t, all[:len(there)], there, "killed before: %s", next)
			if next == "" {
				require.Equal(t, all, there)
			}
			require.NoError(t, log.Append(record{Name: "more"}))
			require.NoError(t, log.Close())
			_, again := mustOpen(t, filepath.Join(dir, "log"))
			require.Equal(t, append(there, record{Name: "more"}), again)
		})
	require.Equal(t, 5, kills)
}

// A kill at any byte of a line takes that line alone.
func TestAppendLogCutAtEachByte(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, there := mustOpen(t, path)
	require.Empty(t, there)
	require.NoError(t, log.Append(record{"a", 1}, record{"b", 2}))
	require.NoError(t, log.Append(record{Name: strings.Repeat("long", 1<<15)}))
	require.NoError(t, log.Close())
	whole := read(t, path)
	for n := 0; n <= len(whole); n++ {
		if n == 100 {
			n = len(whole) - 100 // the same within the long line
		}
		put(t, path, whole[:n])
		log, there := mustOpen(t, path)
		require.Len(t, there, strings.Count(whole[:n], "\n"), "cut at %d", n)
		require.Equal(t, int64(strings.LastIndex(whole[:n], "\n")+1), log.Size())
		require.NoError(t, log.Append(record{Name: "next"}))
		require.NoError(t, log.Close())
		require.Equal(t, whole[:log.Size()-int64(len("{\"name\":\"next\"}\n"))]+"{\"name\":\"next\"}\n", read(t, path), "cut at %d", n)
	}
}

func TestOpenLogRefuses(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"not JSON", "{\"name\":\"a\"}\nhello\n", ":2: invalid character 'h' looking for beginning of value"},
		{"another name", "{\"nome\":\"a\"}\n", `:1: unknown field "nome"`},
		{"two values", "{\"name\":\"a\"} {}\n", ":1: more than one JSON value on the line"},
		{"what follows", "{\"name\":\"a\"}]\n", ":1: more than one JSON value on the line"},
		{"an empty line", "{\"name\":\"a\"}\n\n{\"name\":\"a\"}\n", ":2: EOF"},
		{"cut off in the middle", "{\"name\":\n{\"name\":\"a\"}\n", ":1: unexpected EOF"},
		{"another file", "hello", ":1: not the beginning of such a file"},
		{"the caller", "{\"name\":\"a\"}\n{\"name\":\"no\"}\n{\"na", ":2: no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			put(t, path, c.content)
			_, err := durable.OpenLog(path, durable.Format[record]{}, func(_ int, r record) error {
				if r.Name == "no" {
					return errors.New("no")
				}
				return nil
			})
			var line *durable.LineError
			require.ErrorAs(t, err, &line)
			require.ErrorContains(t, err, path+c.want)
			require.Equal(t, c.content, read(t, path), "a refused file stays as it was")
		})
	}
	// Nothing is cut off a file that is no log, also where its records are not read.
	for _, content := range []string{"hello", "hello\nwor", "\n{}\n{"} {
		path := filepath.Join(t.TempDir(), "letter")
		put(t, path, content)
		_, err := durable.OpenLog(path, durable.Format[record]{}, nil)
		require.ErrorContains(t, err, path+":1: not the beginning of such a file")
		require.Equal(t, content, read(t, path))
	}

	_, _, err := open(filepath.Join(t.TempDir(), "no", "log"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, _, err = open(t.TempDir())
	require.Error(t, err)
}

func TestAppendLogHasOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, _ := mustOpen(t, path)
	_, _, err := open(path)
	require.ErrorContains(t, err, path+": another writer has it open")
	require.NoError(t, log.Close())
	mustOpen(t, path)
}

// One record that cannot be written keeps its call's other records out.
func TestAppendIsAllOrNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, err := durable.OpenLog(path, durable.Format[record]{Encode: func(b *bytes.Buffer, r record) error {
		if r.Name == "bad" {
			b.WriteString("half of a")
			return errors.New("a bad one")
		}
		fmt.Fprintf(b, "{\"name\":%q}%s", r.Name, map[bool]string{true: "", false: "\n"}[r.Name == "endless"])
		return nil
	}}, nil)
	require.NoError(t, err)
	require.NoError(t, log.Append(record{Name: "a"}))
	require.ErrorContains(t, log.Append(record{Name: "b"}, record{Name: "bad"}), path+": a bad one")
	require.ErrorContains(t, log.Append(record{Name: "b"}, record{Name: "endless"}), "a record of other than one line")
	require.NoError(t, log.Append())
	require.NoError(t, log.Append(record{Name: "c"}))
	require.NoError(t, log.Close())
	require.Equal(t, line("a")+line("c"), read(t, path))
}

func TestReader(t *testing.T) {
	r := durable.NewReader("log", strings.NewReader("{\"name\":\"a\"}\n{\"name\n{\"name\":\"b\"}\n{\"na"), durable.ParseJSON[record])
	got, err := r.Next()
	require.NoError(t, err)
	require.Equal(t, record{Name: "a"}, got)
	_, err = r.Next()
	require.ErrorContains(t, err, "log:2: unexpected EOF")
	got, err = r.Next()
	require.NoError(t, err)
	require.Equal(t, record{Name: "b"}, got)
	require.Equal(t, 3, r.Line())
	require.False(t, r.CutOff)
	_, err = r.Next()
	require.ErrorIs(t, err, io.EOF)
	require.True(t, r.CutOff)

	endless := durable.NewReader("log", zeros{}, durable.ParseJSON[record])
	_, err = endless.Next()
	require.ErrorContains(t, err, "log:1: a line of more than 64 MiB")
}

// zeros has no end of a line.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// Whatever the file holds: it is refused with file and line and stays as it was, or
// its whole lines are there again, and what is appended follows them.
func FuzzAppendLog(f *testing.F) {
	for _, seed := range []string{
		"", "{", "{\"name\":\"a\"}\n", "{\"name\":\"a\"}\n{\"name\":\"b\",\"value\":1e3}\n{\"na", "hello", "hello\n",
		"{\"name\":\"a\"}\n\n", "{} {}\n", "{}\r\n", "null\n[]\n", "{\"name\":\"a\"}\n\x00\x00\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "log")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		log, there, err := open(path)
		if err != nil {
			require.Regexp(t, `^`+path+`:\d+: .`, err.Error())
			require.Equal(t, string(data), read(t, path))
			return
		}
		kept := data[:bytes.LastIndexByte(data, '\n')+1]
		require.Len(t, there, bytes.Count(kept, []byte("\n")))
		more := record{"more", 1.5}
		require.NoError(t, log.Append(more))
		require.NoError(t, log.Close())
		require.Equal(t, string(kept)+"{\"name\":\"more\",\"value\":1.5}\n", read(t, path))
		log, again, err := open(path)
		require.NoError(t, err)
		require.NoError(t, log.Close())
		require.Equal(t, append(there, more), again)
	})
}

// A disk that is full, at whatever byte: an error, and what was there is still
// there. When there is room again, the log goes on.
func TestAppendLogOnFullDisk(t *testing.T) {
	line := "{\"name\":\"a\"}\n"
	for room := range 2 * len(line) {
		path := filepath.Join(t.TempDir(), "log")
		log, _ := mustOpen(t, path)
		require.NoError(t, log.Append(record{Name: "a"}))
		disk := &durable.Disk{Room: room}
		durable.On(log, disk)
		require.ErrorIs(t, log.AppendSync(record{Name: "b"}, record{Name: "c"}), io.ErrShortWrite)
		require.Equal(t, line, read(t, path), "room for %d bytes", room)
		disk.Room = 100
		require.NoError(t, log.AppendSync(record{Name: "d"}))
		require.Equal(t, line+"{\"name\":\"d\"}\n", read(t, path))
	}
}

// Where a torn line cannot be removed, nothing is written behind it.
func TestAppendLogCannotTruncate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, _ := mustOpen(t, path)
	require.NoError(t, log.Append(record{Name: "a"}))
	broken := errors.New("the disk is broken")
	disk := &durable.Disk{Room: 5, FailTruncate: broken}
	durable.On(log, disk)
	require.ErrorIs(t, log.Append(record{Name: "b"}), broken)
	disk.Room = 100
	require.ErrorIs(t, log.Append(record{Name: "c"}), broken)
	require.Equal(t, line("a")+line("b")[:5], read(t, path))
	disk.FailTruncate = nil
	require.NoError(t, log.Append(record{Name: "d"}))
	require.Equal(t, line("a")+line("d"), read(t, path))
}

// What could not be synced is not in the log.
func TestAppendSyncFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, _ := mustOpen(t, path)
	require.NoError(t, log.AppendSync(record{Name: "a"}))
	broken := errors.New("the disk is broken")
	durable.On(log, &durable.Disk{Room: 100, FailSync: broken})
	require.ErrorIs(t, log.AppendSync(record{Name: "b"}), broken)
	require.Equal(t, line("a"), read(t, path))
	require.NoError(t, log.Append(record{Name: "c"}))
	require.ErrorIs(t, log.Sync(), broken)
}
