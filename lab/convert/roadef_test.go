package convert

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

const roadefModel = `1
1 1
2
0 0 9 9 0 1
0 1 9 9 1 0
1
1 0
2
0 4 5
0 3 1
0
1 1 1
`

func TestRoadef(t *testing.T) {
	traces := convert(t, "roadef", Defaults(), write(t, map[string]string{
		"model_b_1.txt": roadefModel, "assignment_b_1.txt": "1 0", "README.txt": "not an instance",
	}))
	require.Len(t, traces, 1)
	tr := traces[0]
	assert.Equal(t, "roadef-b-1", tr.Name)
	assert.Equal(t, binpack.Fixed, tr.Instance.Fleet)
	assert.Equal(t, []binpack.Group{{Name: "s00000", Limit: 1}}, tr.Instance.Groups)
	assert.Equal(t, []int64{3}, tr.Instance.Apps[1].Demand)
	assert.Equal(t, []trace.Placed{{Request: 0, Line: 1, Count: 1}, {Request: 1, Count: 1}}, tr.Placed)
	assert.Equal(t, roadefModel, tr.Source["model"])
}

func TestBadRoadef(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"no file is named like model_*.txt":                  {"a.txt": ""},
		"no file is named like assignment_1.txt":             {"model_1.txt": roadefModel},
		"assignment_1.txt:1: machine 0 has two processes":    {"model_1.txt": roadefModel, "assignment_1.txt": "0 0"},
		`model_1.txt:1: the number of resources "one": want`: {"model_1.txt": "one", "assignment_1.txt": "0 0"},
	} {
		require.ErrorContains(t, convertError("roadef", write(t, files)), want)
	}
}

func TestRoadefPublic(t *testing.T) {
	traces := converted(t, "roadef", Defaults(), data(t, "roadef2012-a"))
	require.Len(t, traces, 10)
	require.Len(t, traces[9].Placed, 1000)
}
