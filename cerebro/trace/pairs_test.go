package trace

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

func loadPairs(t *testing.T, change ...string) (*Trace, error) {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"trace.yaml":   "name: pairs\ndimensions: [cpu, egress]\nfleet: fixed\n",
		"machines.csv": "machine,type,count,cost,cpu,egress\na,,1,1,4,8G\n",
		"apps.csv":     "app,group,cpu,egress\nweb,,1,200M\ndb,,1,0\n",
		"pairs.csv":    "app,other,bits_per_second,pattern\nweb,db,150000000,paired\ndb,web,2.5e6,all\ndb,db,1,all\n",
		"events.csv":   "time,kind,request,app,count\n0,create,w,web,1\n",
	}, change...)
	return Load(dir)
}

func TestPairsAreWrittenAndReadAgain(t *testing.T) {
	first, err := loadPairs(t)
	require.NoError(t, err)
	require.Equal(t, []binpack.Pair{{App: 0, Other: 1, Bits: 1.5e8, Paired: true}, {App: 1, Other: 0, Bits: 2.5e6}, {App: 1, Other: 1, Bits: 1}}, first.Instance.Pairs)
	dir := filepath.Join(t.TempDir(), "again")
	require.NoError(t, first.Write(dir))
	again, err := Load(dir)
	require.NoError(t, err)
	instance, whole, err := first.Digests()
	require.NoError(t, err)
	_, wholeAgain, err := again.Digests()
	require.NoError(t, err)
	require.Equal(t, whole, wholeAgain)
	other, err := loadPairs(t, "2.5e6,all", "2.6e6,all")
	require.NoError(t, err)
	sameInstance, changed, err := other.Digests()
	require.NoError(t, err)
	require.Equal(t, instance, sameInstance, "digest.instance covers machines, apps and rules")
	require.NotEqual(t, whole, changed)
}

func TestPairsThatAreWrong(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"web,db,150000000", "wob,db,150000000", `pairs.csv:2: app "wob": unknown app`},
		{"web,db,150000000", "web,bd,150000000", `pairs.csv:2: other "bd": unknown app`},
		{"db,web,2.5e6", "web,db,2.5e6", `pairs.csv:3: other "db": the pair is given twice`},
		{"2.5e6", "0", `pairs.csv:3: bits_per_second "0": want a number above 0`},
		{"2.5e6", "-3", `pairs.csv:3: bits_per_second "-3": want a number above 0`},
		{"2.5e6", "NaN", `pairs.csv:3: bits_per_second "NaN": not a finite decimal number`},
		{"2.5e6", "2M", `pairs.csv:3: bits_per_second "2M": not a finite decimal number`},
		{"2.5e6,all", "2.5e6,some", `pairs.csv:3: pattern "some": want all or paired`},
		{"db,db,1,all", "db,db,1,paired", `pairs.csv:4: pattern "paired": an app is not paired with itself`},
		{",pattern", ",patern", `pairs.csv:1: missing column "pattern"`},
	} {
		_, err := loadPairs(t, c.from, c.to)
		require.Error(t, err, c.to)
		require.True(t, strings.HasSuffix(err.Error(), c.want), err.Error())
	}
}
