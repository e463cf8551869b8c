package train

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/internal/durable/killtest"
)

// frontOf is a front whose policies have the weights given.
func frontOf(weights ...float64) *Front {
	f := &Front{Objectives: []string{"machines", "balance"}}
	for i, w := range weights {
		object := &policy.Object{Spec: policy.Spec{Model: "linear", Features: []string{"slot"}, Weights: []float64{w}}}
		f.Points = append(f.Points, FrontPoint{Object: object, Objectives: []float64{float64(i), float64(10 - i*i)}})
	}
	return f
}

// TestFrontKilledAtEachStep: the folder holds the earlier front or the new one, whole
// and nothing of the other, and can be replaced by the next run.
func TestFrontKilledAtEachStep(t *testing.T) {
	old, fresh := frontOf(1, 2, 3, 4, 5), frontOf(6, 7)
	contents := func(dir string) (files []string) {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			require.NoError(t, err)
			files = append(files, fmt.Sprintf("%s:\n%s", e.Name(), text))
		}
		return files
	}
	write := func(f *Front, dir string) error { return f.Write(t.Context(), filepath.Join(dir, "front"), 9, nil) }
	var want [2][]string
	for i, f := range []*Front{old, fresh} {
		dir := t.TempDir()
		require.NoError(t, write(f, dir))
		want[i] = contents(filepath.Join(dir, "front"))
	}
	require.NotEqual(t, len(want[0]), len(want[1]))
	count := [2]int{}
	killtest.EachStep(t,
		func(dir string) { require.NoError(t, write(old, dir)) },
		func(dir string) error { return write(fresh, dir) },
		func(dir, next string) {
			front := filepath.Join(dir, "front")
			got, is := contents(front), 0
			if len(got) == len(want[1]) {
				is = 1
			}
			count[is]++
			require.Equal(t, want[is], got, "killed before: %s", next)
			require.NoError(t, ReplaceableFront(front))
			require.NoError(t, write(fresh, dir))
			require.Equal(t, want[1], contents(front), "killed before: %s", next)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1, "killed before: %s", next)
		})
	require.Greater(t, count[0], 5)
	require.Greater(t, count[1], 2)
}
