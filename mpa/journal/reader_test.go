package journal_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/journal"
)

// A kill at any byte of the last record loses at most that record.
func TestTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.jsonl")
	s := open(t, path, journal.Options{}, setup("hpa+vpa"), mpa.Memory{})
	w := newWorld(3)
	w.run(t, s, 50)
	require.NoError(t, s.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	for cut := last + 1; cut < len(whole); cut += 97 {
		require.NoError(t, os.WriteFile(path, whole[:cut], 0o600))
		v := replay(t, path)
		assert.Equal(t, 49, v.Decisions)
		assert.True(t, v.CutOff)

		s := open(t, path, journal.Options{}, setup("hpa+vpa"), mpa.Memory{})
		assert.True(t, s.Resumed)
		_, err := s.Decide(w.observe(), 1)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		v = replay(t, path)
		assert.Equal(t, 50, v.Decisions)
		assert.False(t, v.CutOff)
	}
}

func TestReadersThatFail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.jsonl")
	s := open(t, path, journal.Options{}, setup("hpa"), mpa.Memory{})
	newWorld(3).run(t, s, 5)
	require.NoError(t, s.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(whole), "\n")
	for want, change := range map[string]func(lines []string){
		"web.jsonl:3: unexpected EOF":                             func(l []string) { l[2] = l[2][:50] + "\n" },
		`web.jsonl:2: kind "dec": want start, decision or`:        func(l []string) { l[1] = strings.Replace(l[1], `"decision"`, `"dec"`, 1) },
		"web.jsonl:1: a journal begins with a start, not with de": func(l []string) { l[0] = l[1] },
		"web.jsonl:1: start.format 4: this program reads 1 to 3":  func(l []string) { l[0] = strings.Replace(l[0], `"format":3`, `"format":4`, 1) },
		`web.jsonl:2: unknown field "podds"`:                      func(l []string) { l[1] = strings.Replace(l[1], `"pods"`, `"podds"`, 1) },
	} {
		l := append([]string(nil), lines...)
		change(l)
		_, err := journal.Replay("web.jsonl", strings.NewReader(strings.Join(l, "")), nil)
		require.ErrorContains(t, err, want)
	}

	_, err = journal.Replay("zero", zeros{}, nil)
	require.ErrorContains(t, err, "zero:1: a line of more than 64 MiB")

	// A broken journal is set aside: it must not stop the autoscaling of its workload.
	broken := append([]string(nil), lines...)
	broken[2] = broken[2][:50] + "\n"
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(broken, "")), 0o600))
	s, err = journal.Begin(path, journal.Options{}, setup("hpa"), mpa.Memory{})
	require.NoError(t, err)
	require.ErrorContains(t, s.Broken, "web.jsonl:3: unexpected EOF")
	assert.False(t, s.Resumed)
	require.NoError(t, s.Close())
	assert.FileExists(t, path+".broken")
	replay(t, path)
}

// A journal of another workload, such as a copied one, is set aside.
func TestJournalOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.jsonl")
	s := open(t, path, journal.Options{}, setup("hpa"), mpa.Memory{})
	newWorld(3).run(t, s, 5)
	require.NoError(t, s.Close())
	other := setup("hpa")
	other.Object = "shop/cart"
	s, err := journal.Begin(path, journal.Options{}, other, mpa.Memory{})
	require.NoError(t, err)
	require.ErrorContains(t, s.Broken, "web.jsonl is the journal of shop/web, not of shop/cart")
	assert.False(t, s.Resumed)
	assert.Zero(t, s.Memory().Time)
	require.NoError(t, s.Close())
	assert.Equal(t, 5, replay(t, path+".broken").Decisions)
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// The decisions in journals of format 1 are computed again, with another agent, restarts and
// full files; and a controller resumes from one.
func TestFormat1(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"web.jsonl", "web.jsonl.1", "web.jsonl.2"} {
		data, err := os.ReadFile(filepath.Join("testdata", "v1", name))
		require.NoError(t, err)
		require.Contains(t, string(data), `"format":1,`)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		v := replay(t, filepath.Join(dir, name))
		assert.Positive(t, v.Decisions)
		assert.Zero(t, v.Recorded)
	}
	path := filepath.Join(dir, "web.jsonl")
	same := setup("hpa+vpa")
	same.Target.Replicas = mpa.Range{Min: 1, Max: 3}
	s := open(t, path, journal.Options{}, same, mpa.Memory{})
	assert.True(t, s.Resumed)
	assert.NotEmpty(t, s.Memory().Containers[0].Peaks)
	w := newWorld(12)
	w.now = s.Memory().Time
	w.run(t, s, 10)
	require.NoError(t, s.Close())
	assert.Equal(t, 15, replay(t, path).Decisions)
}

// In journals of format 2 the newest pod has the present size, though a LimitRange capped it; a
// controller that resumes from one takes the size that most pods have.
func TestFormat2(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "v2", "capped.jsonl"))
	require.NoError(t, err)
	require.Contains(t, string(data), `"format":2,`)
	path := filepath.Join(t.TempDir(), "web.jsonl")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	assert.Equal(t, 12, replay(t, path).Decisions)

	same := setup("hpa+vpa")
	same.Target.Replicas = mpa.Range{Min: 3, Max: 3}
	s := open(t, path, journal.Options{}, same, mpa.Memory{})
	assert.True(t, s.Resumed)
	w := newWorld(12)
	w.now, w.replicas = s.Memory().Time, 3
	o := w.observe()
	capped := &o.Pods[2]
	capped.Started, capped.Containers[0].Request.CPU = capped.Started.Add(time.Minute), 300
	d, err := s.Decide(o, 1)
	require.NoError(t, err)
	assert.Equal(t, int64(1000), d.Next.Containers[0].CPU)
	require.NoError(t, s.Close())
	v := replay(t, path)
	assert.Equal(t, 13, v.Decisions)
	assert.Equal(t, 2, v.Starts)
}

func FuzzReader(f *testing.F) {
	path := filepath.Join(f.TempDir(), "web.jsonl")
	s, err := journal.Begin(path, journal.Options{}, setup("hpa+vpa"), mpa.Memory{})
	require.NoError(f, err)
	w := newWorld(8)
	for range 3 {
		_, err := s.Decide(w.observe(), 1)
		require.NoError(f, err)
	}
	require.NoError(f, s.Close())
	whole, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte(`{"kind":"start","start":{"format":2,"agent":{"name":"vpa"},"continues":true,"state":{"containers":[{}]}}}` + "\n"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if _, err := journal.Replay("fuzz", bytes.NewReader(data), nil); err != nil {
			return
		}
		r := journal.NewReader("fuzz", bytes.NewReader(data))
		for {
			if _, err := r.Next(); errors.Is(err, io.EOF) {
				return
			}
		}
	})
}
