package convert

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

func TestFunsearch(t *testing.T) {
	dir := write(t, map[string]string{
		"b.json.gz": `{"name":"Big Set 2","instances":[{"name":"u_0","capacity":10,"items":[7,3,7]},{"name":"u_1","capacity":9,"items":[]}]}`,
		"a.json":    `{"instances":[{"capacity":5,"items":[5]}]}`,
		"README.md": "not an instance",
	})
	traces := convert(t, "funsearch", Options{}, dir)
	require.Len(t, traces, 3)
	assert.Equal(t, "a-00", traces[0].Name)
	tr := traces[1]
	assert.Equal(t, "big-set-2-00", tr.Name)
	assert.Equal(t, "big-set-2-01", traces[2].Name)
	assert.Empty(t, traces[2].Requests)
	inst := tr.Instance
	assert.Equal(t, binpack.Open, inst.Fleet)
	assert.Equal(t, []binpack.MachineLine{{Name: "bin", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{10}}}, inst.Machines)
	require.Len(t, inst.Apps, 2)
	assert.Equal(t, "3", inst.Apps[0].Name)
	assert.Equal(t, []int64{7}, inst.Apps[1].Demand)
	assert.Negative(t, inst.Apps[1].Expected)
	assert.Equal(t, []trace.Request{{Name: "r00000", App: 1, Count: 1}, {Name: "r00001", App: 0, Count: 1}, {Name: "r00002", App: 1, Count: 1}}, tr.Requests)
	assert.InDelta(t, 2, tr.Events[2].Time, 0)
}

func TestFunsearchErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"{\"name\":\"x\",\n\"instances\":[}", "x.json:2: invalid character '}' looking for beginning of value"},
		{`{"instances":[{"capacity":"5"}]}`, "x.json:1: json: cannot unmarshal string into Go struct field"},
		{`{"instances":[{"capacity":5,"items":[1.5]}]}`, "x.json:1: json: cannot unmarshal number 1.5 into Go struct field"},
		{`{"instances":[]}`, "x.json: instances: none"},
		{`{"instances":[{"capacity":0,"items":[]}]}`, "x.json: instances[0].capacity: 0 is not within 1 and 2⁵⁰"},
		{`{"instances":[{"capacity":5,"items":[1,6]}]}`, "x.json: instances[0].items[1]: 6 is not within 1 and the capacity"},
	} {
		path := filepath.Join(write(t, map[string]string{"x.json": tt.text}), "x.json")
		require.ErrorContains(t, convertError("funsearch", path), tt.want)
	}
}

func TestFunsearchPublic(t *testing.T) {
	traces := convert(t, "funsearch", Options{}, data(t, "funsearch-binpack"))
	require.Len(t, traces, 25)
	sum := func(traces []*trace.Trace, prefix string, n int) (machines float64) {
		for i, tr := range traces {
			require.Equal(t, fmt.Sprintf("%s-%02d", prefix, i), tr.Name)
			require.Len(t, tr.Requests, n)
			machines += float64(bound.Volume(tr.Instance, counts(tr)).Machines)
		}
		return machines
	}
	assert.InDelta(t, 201.2, sum(traces[:20], "or3", 500)/20, 1e-9)
	assert.InDelta(t, 1987.8, sum(traces[20:], "weibull-5k", 5000)/5, 1e-9)
}

// counts are the items per app of all requests.
func counts(tr *trace.Trace) []int64 {
	n := make([]int64, len(tr.Instance.Apps))
	for _, r := range tr.Requests {
		n[r.App] += int64(r.Count)
	}
	return n
}
