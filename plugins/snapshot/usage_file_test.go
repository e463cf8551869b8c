package snapshot

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A series of a workload is that of each of its apps; others are counted, and a wrong line is named.
func TestAddUsage(t *testing.T) {
	tr := &trace.Trace{Instance: &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", Unit: "m", One: 1000}, {Name: "memory", One: 1}},
		Apps:       []binpack.App{{Name: "shop/Deployment/web@cpu=1"}, {Name: "shop/Deployment/web@cpu=2"}, {Name: "shop/Deployment/cart"}},
	}}
	add := func(text string) (string, error) {
		path := filepath.Join(t.TempDir(), "use.csv.gz")
		file, err := os.Create(path)
		require.NoError(t, err)
		packed := gzip.NewWriter(file)
		_, err = packed.Write([]byte("app,item,dimension,start,step" + text))
		require.NoError(t, err)
		require.NoError(t, packed.Close())
		require.NoError(t, file.Close())
		return AddUsage(tr, path, trace.DefaultUnpacked)
	}
	note, err := add("\nshop/Deployment/web,,cpu,-7200,3600,100m,.2\nkube-system/DaemonSet/proxy,,cpu,-7200,3600,1,1\nshop/Deployment/cart,,memory,-3600,3600,1Gi\n")
	require.NoError(t, err)
	require.Equal(t, "use.csv.gz: 1 row of workloads that the trace lacks", note)
	u, err := tr.Usage()
	require.NoError(t, err)
	require.Len(t, u.Series, 3)
	require.Equal(t, []float32{.1, .2}, u.Series[1].Values)
	require.EqualValues(t, 1, u.Series[1].App)
	for text, want := range map[string]string{
		"\nshop/Deployment/web,,cpu,-7200,3600,x\n":     `use.csv.gz:2: value 1 "x"`,
		"\nshop/Deployment/web,,gpu,-7200,3600,1\n":     `use.csv.gz:2: dimension "gpu": unknown dimension`,
		"\nother,,cpu,-7200,3600,1\n":                   "use.csv.gz: no workload of the cluster is in it: want namespace/kind/name, such as shop/Deployment/web",
		"\nshop/Deployment/web,x,cpu,0,3600,1\n":        `use.csv.gz: item "x": want no items`,
		"\nshop/Deployment/web,,cpu,-864000,3600,1,2\n": "use.csv.gz: the last sample is 9.9 days before time 0, the time of the dump: want one within a day",
		"\nshop/Deployment/web,,cpu,864000,3600,1,2\n":  "use.csv.gz: the last sample is 10.1 days after time 0, the time of the dump: want one within a day",
	} {
		_, err := add(text)
		require.ErrorContains(t, err, want)
	}
}
