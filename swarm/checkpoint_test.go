package swarm

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var testSettings = map[string]any{
	"seed": 1, "optimiser": map[string]any{"name": "pso", "inertia": .72}, "traces": []string{"a", "b"},
}

func openCheckpoint(t testing.TB, path string, settings any) *Checkpoint {
	t.Helper()
	c, err := OpenCheckpoint(path, settings)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.log.Close() })
	return c
}

// kinks has values of every kind in its range: NaN, both infinities, −0,
// subnormal and ordinary numbers.
func kinks(x []float64) float64 {
	switch {
	case x[0] < -.9:
		return math.NaN()
	case x[0] < -.8:
		return math.Inf(-1)
	case x[0] < -.7:
		return math.Inf(1)
	case x[0] < -.6:
		return math.Copysign(0, -1)
	case x[0] < -.5:
		return 5e-324
	}
	return rastrigin(x) / 3
}

// recorded runs with a checkpoint and returns the transcript and the number of
// evaluations that were really made.
func recorded(t *testing.T, name, path string, workers int) (text string, made int) {
	t.Helper()
	c := openCheckpoint(t, path, testSettings)
	var calls atomic.Int64
	var b strings.Builder
	archive := NewArchive(2)
	objective := func(_ context.Context, task Task) (float64, []float64, error) {
		calls.Add(1)
		return kinks(task.X), []float64{sphere(task.X), shifted(sphere)(task.X)}, nil
	}
	opt := newOptimiser(t, name, Search{Box: Cube(2, -1, 1), Seed: 1, Size: 3})
	r, err := Minimize(context.Background(), opt, Parallel(workers, objective), Options{
		Budget: 13, Checkpoint: c, Archive: archive,
		Renew:    func(g int) bool { return g == 2 },
		Progress: func(s Stats) { fmt.Fprintf(&b, "%#v\n", s) },
	})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	fmt.Fprintf(&b, "%#v\n%#v\n", r, archive.Points())
	return b.String(), int(calls.Load())
}

// A run killed at any byte of the file resumes to the same bytes, and makes
// only the evaluations whose line was not complete.
func TestCheckpointKilledAtEveryByte(t *testing.T) {
	for _, o := range optimisers {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "checkpoint")
			want, made := recorded(t, o.name, path, 1)
			require.Equal(t, 13, made)
			full, err := os.ReadFile(path)
			require.NoError(t, err)

			for n := range len(full) + 1 {
				require.NoError(t, os.WriteFile(path, full[:n], 0o600))
				got, made := recorded(t, o.name, path, 1)
				require.Equal(t, want, got, "killed at byte %d", n)
				kept := max(strings.Count(string(full[:n]), "\n")-1, 0)
				require.Equal(t, 13-kept, made, "killed at byte %d", n)
				again, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, string(full), string(again), "killed at byte %d", n)
			}
		})
	}
}

// Opening the file removes the torn line, before anything shorter could be written
// over a part of it.
func TestCheckpointCutsTornLine(t *testing.T) {
	header, err := checkpointHeader(testSettings)
	require.NoError(t, err)
	whole := header + "0 0 00000000000000aa 1.5\n"
	path := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, os.WriteFile(path, []byte(whole+"0 1 00000000000000ab 2.12345678"), 0o600))
	c := openCheckpoint(t, path, testSettings)
	assert.Equal(t, 1, c.Recorded())
	require.NoError(t, c.Close())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, whole, string(after))
}

// With seven workers lines come in any order, so that a kill leaves gaps; the
// result is the same.
func TestCheckpointWithWorkers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	want, _ := recorded(t, "pso", path, 7)
	full, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(full), "\n")
	for n := range lines {
		// Every second line of those after n is lost.
		kept := strings.Join(lines[:n], "")
		for i := max(n, 1); i < len(lines) && n > 0; i += 2 {
			kept += lines[i]
		}
		require.NoError(t, os.WriteFile(path, []byte(kept), 0o600))
		got, _ := recorded(t, "pso", path, 7)
		require.Equal(t, want, got)
	}
}

func TestCheckpointSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, openCheckpoint(t, path, testSettings).Close())
	for _, c := range []struct {
		name     string
		settings any
		want     SettingsError
	}{
		{"value", map[string]any{"seed": 2, "optimiser": map[string]any{"name": "pso", "inertia": .72}, "traces": []string{"a", "b"}}, SettingsError{Setting: "seed", Recorded: "1", Given: "2"}},
		{"nested, and the first by name", map[string]any{"seed": 2, "optimiser": map[string]any{"name": "pso", "inertia": .73}, "traces": []string{"a", "b"}}, SettingsError{Setting: "optimiser.inertia", Recorded: "0.72", Given: "0.73"}},
		{"absent now", map[string]any{"seed": 1, "optimiser": map[string]any{"name": "pso"}, "traces": []string{"a", "b"}}, SettingsError{Setting: "optimiser.inertia", Recorded: "0.72"}},
		{"absent in the file", map[string]any{"budget": 5, "seed": 1, "optimiser": map[string]any{"name": "pso", "inertia": .72}, "traces": []string{"a", "b"}}, SettingsError{Setting: "budget", Given: "5"}},
		{"element", map[string]any{"seed": 1, "optimiser": map[string]any{"name": "pso", "inertia": .72}, "traces": []string{"a", "c"}}, SettingsError{Setting: "traces[1]", Recorded: `"b"`, Given: `"c"`}},
		{"shorter", map[string]any{"seed": 1, "optimiser": map[string]any{"name": "pso", "inertia": .72}, "traces": []string{"a"}}, SettingsError{Setting: "traces[1]", Recorded: `"b"`}},
		{"another kind", 5, SettingsError{Setting: "settings", Recorded: `{"optimiser":{"inertia":0.72,"name":"pso"},"seed":1,"traces":["a","b"]}`, Given: "5"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := OpenCheckpoint(path, c.settings)
			require.ErrorIs(t, err, ErrSettings)
			var e *SettingsError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, c.want, *e)
			assert.ErrorContains(t, err, path+":1: ")
		})
	}
	// A struct with the same names and values has the same settings.
	same := struct {
		Traces    []string       `json:"traces"`
		Seed      int            `json:"seed"`
		Optimiser map[string]any `json:"optimiser"`
	}{[]string{"a", "b"}, 1, map[string]any{"inertia": .72, "name": "pso"}}
	openCheckpoint(t, path, same)

	_, err := OpenCheckpoint(filepath.Join(t.TempDir(), "new"), math.NaN())
	require.ErrorContains(t, err, "settings")
}

func TestCheckpointMalformed(t *testing.T) {
	header, err := checkpointHeader(testSettings)
	require.NoError(t, err)
	good := "0 0 00000000000000aa 1.5\n"
	for _, c := range []struct{ name, text, want string }{
		{"not ours", "hello", ":1: not the beginning of such a file"},
		{"not ours, a line", "hello\n", ":1: not the header"},
		{"other JSON", "{}\n", ":1: not the header"},
		{"version", strings.Replace(header, `"version":1`, `"version":2`, 1), ":1: checkpoint version 2, not 1"},
		{"spaces in the header", strings.Replace(header, `,"version"`, `, "version"`, 1), ":1: unusual spelling"},
		{"empty line", header + good + "\n" + good, ":3: fewer than 4 fields"},
		{"torn in the middle", header + "0 0 00000000\n" + good, ":2: fewer than 4 fields"},
		{"generation", header + "-1 0 00000000000000aa 1\n", ":2: no generation"},
		{"index", header + "0 x 00000000000000aa 1\n", ":2: no index"},
		{"position", header + "0 0 zz 1\n", ":2: no hash"},
		{"value", header + "0 0 00000000000000aa one\n", ":2: no number"},
		{"objective", header + "0 0 00000000000000aa 1 \n", ":2: no number"},
		{"too large", header + "0 0 00000000000000aa 1e999\n", ":2: no number"},
		{"spelling", header + "0 0 00000000000000aa 1.50\n", ":2: unusual spelling"},
		{"carriage return", header + "0 0 00000000000000aa 1.5\r\n", ":2: no number"},
		{"twice", header + good + good, ":3: generation 0, index 0 is on line 2 already"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "checkpoint")
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			_, err := OpenCheckpoint(path, testSettings)
			require.ErrorContains(t, err, path+c.want)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, c.text, string(after), "a refused file is left alone")
		})
	}
}

// TestCheckpointOfEarlierVersion: a file that an earlier version wrote is read, and a
// run still makes the same file.
func TestCheckpointOfEarlierVersion(t *testing.T) {
	old, err := os.ReadFile(filepath.Join("testdata", "pso.checkpoint"))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, os.WriteFile(path, old, 0o600))
	_, made := recorded(t, "pso", path, 1)
	require.Zero(t, made)
	require.NoError(t, os.Remove(path))
	recorded(t, "pso", path, 1)
	fresh, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(old), string(fresh))
}

// A file with the right settings that another optimiser wrote is noticed at the
// first position that differs.
func TestCheckpointOfAnotherOptimiser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	recorded(t, "pso", path, 1)
	c := openCheckpoint(t, path, testSettings)
	assert.Equal(t, 13, c.Recorded())
	opt := newOptimiser(t, "cmaes", Search{Box: Cube(2, -1, 1), Seed: 1, Size: 3})
	_, err := Minimize(context.Background(), opt, Parallel(1, Func(kinks)), Options{Budget: 13, Checkpoint: c})
	require.ErrorContains(t, err, path+":2: generation 0, index 0 was evaluated at another position")
}

func TestCheckpointWriteFails(t *testing.T) {
	c := openCheckpoint(t, filepath.Join(t.TempDir(), "checkpoint"), testSettings)
	require.NoError(t, c.log.Close())
	opt := newOptimiser(t, "pso", Search{Box: Cube(2, -1, 1)})
	r, err := Minimize(context.Background(), opt, Parallel(3, Func(kinks)), Options{Budget: 13, Checkpoint: c})
	require.ErrorIs(t, err, os.ErrClosed)
	assert.Equal(t, StopFailed, r.Stop)
	require.ErrorIs(t, c.record(Task{}, result{}), os.ErrClosed)

	_, err = OpenCheckpoint(filepath.Join(t.TempDir(), "no", "such", "folder"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Whatever the lines: no panic, and what is accepted is what this package writes.
func FuzzCheckpoint(f *testing.F) {
	header, err := checkpointHeader(testSettings)
	require.NoError(f, err)
	f.Add("")
	f.Add(header)
	f.Add(header + "0 0 00000000000000aa 1.5\n0 1 00000000000000ab NaN +Inf -0\n1 0 0")
	f.Add("{\"checkpoint\":\"sigma-swarm\",\"version\":1,\"settings\":[{}]}\n")
	f.Fuzz(func(t *testing.T, data string) {
		c := &Checkpoint{header: header, records: map[place]record{}}
		lines := strings.Split(data, "\n")
		for i, line := range lines {
			if c.take(i+1, line) != nil {
				return
			}
		}
		again := make([]string, len(lines))
		again[0] = strings.TrimSuffix(header, "\n")
		for at, r := range c.records {
			again[r.line-1] = strings.TrimSuffix(string(appendLine(nil, at, r)), "\n")
		}
		require.Equal(t, lines, again)
	})
}

// TestCheckpointIsLocked: two runs on one checkpoint would write the same
// evaluations twice, which the next one refuses.
func TestCheckpointIsLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	first, err := OpenCheckpoint(path, "settings")
	require.NoError(t, err)
	_, err = OpenCheckpoint(path, "settings")
	require.ErrorContains(t, err, "another writer has it open")
	require.NoError(t, first.Close())
	second, err := OpenCheckpoint(path, "settings")
	require.NoError(t, err)
	require.NoError(t, second.Close())
}
