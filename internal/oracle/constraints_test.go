package oracle

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

func TestMain(m *testing.M) {
	metrics.Register() // filters count
	os.Exit(m.Run())
}

const seed = 1

// narrowest is the largest share of pairs on which a model may refuse what all filters allow.
const narrowest = .005

// TestConstraints compares SIGMA_ORACLE clusters. With SIGMA_ORACLE_EXAMPLES=FOLDER the smallest cluster of each kind of
// difference is written there.
func TestConstraints(t *testing.T) {
	count := 300
	if text := os.Getenv("SIGMA_ORACLE"); text != "" {
		var err error
		count, err = strconv.Atoi(text)
		require.NoError(t, err)
	} else if testing.Short() {
		count = 20
	}
	all, err := compareMany(count)
	require.NoError(t, err)
	require.Positive(t, all.asked.allowed)
	all.log(t)
	narrower := map[string]int{}
	for _, key := range slices.Sorted(maps.Keys(all.kinds)) {
		k := all.kinds[key]
		if k.example.wider {
			t.Errorf("%s: %d pairs in %d clusters", key, k.pairs, k.clusters)
		} else {
			narrower[k.example.by] += k.pairs
		}
	}
	for by, n := range narrower {
		if share := float64(n) / float64(all.asked.pairs[by]); share > narrowest {
			t.Errorf("%s is narrower on %.2f %% of pairs, more than %.1f %%", by, 100*share, 100*narrowest)
		}
	}
	if folder := os.Getenv("SIGMA_ORACLE_EXAMPLES"); folder != "" {
		all.writeExamples(t, folder)
	}
}

// TestExample prints one cluster as it is drawn and, as small as it can be, with a difference of it: SIGMA_ORACLE_CLUSTER=NUMBER,
// SIGMA_ORACLE_KIND=TEXT.
func TestExample(t *testing.T) {
	number, err := strconv.ParseUint(os.Getenv("SIGMA_ORACLE_CLUSTER"), 10, 64)
	if err != nil {
		t.Skip("SIGMA_ORACLE_CLUSTER is no number of a cluster")
	}
	c, err := examine(drawCluster(number), nil)
	require.NoError(t, err)
	i := slices.IndexFunc(c.found, func(d difference) bool { return strings.Contains(d.key(), os.Getenv("SIGMA_ORACLE_KIND")) })
	require.GreaterOrEqual(t, i, 0, "no such difference")
	t.Log(example(number, &c.found[i]))
}

// example is the smallest cluster with a difference.
func example(number uint64, d *difference) string {
	c := drawCluster(number)
	shrink(c, d)
	text, err := c.yaml()
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("# %s\n# Pod %s on node %s; of cluster %d.\n%s", d.key(), nameOf(d.pod), d.node, number, text)
}

// writeExamples writes one file a kind; a kind of the trace that explain has too is left out.
func (all *tallies) writeExamples(t *testing.T, folder string) {
	require.NoError(t, os.MkdirAll(folder, 0o755))
	for key, k := range all.kinds {
		if rest, ok := strings.CutPrefix(key, "trace "); ok && all.kinds["explain "+rest] != nil {
			continue
		}
		name := strings.Join(strings.FieldsFunc(key, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", r)
		}), "-")
		require.NoError(t, os.WriteFile(filepath.Join(folder, name+".yaml"), []byte(example(k.first, &k.example)), 0o644))
	}
}
