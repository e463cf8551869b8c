package convert

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// tinyOpenb has 3 nodes with 5 GPUs; its pods ask for 3,960 thousandths of them.
func tinyOpenb() map[string]string {
	return map[string]string{
		"openb_node_list_gpu_node.csv": "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,2048,2,P100\nn1,8000,1024,1,T4\nn2,64000,2048,2,P100\n",
		"openb_node_list_all_node.csv": "sn,cpu_milli,memory_mib,gpu,model\nn9,64000,2048,0,\n",
		"openb_pod_list_default.csv.gz": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n" +
			"p3,4000,1024,1,460,,LS\np1,12500,512,2,1000,P100|H100,BE\np2,4000,1024,1,460,,LS\np4,1000,512,0,0,,LS\n" +
			"p5,4000,1024,1,1000,T4|P100,LS\np6,1000,512,1,40,,LS\n",
		"openb_pod_list_plain.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np1,1000,512,1,1000\n",
	}
}

func TestOpenb(t *testing.T) {
	dir := write(t, tinyOpenb())
	tr := convert(t, "openb", Defaults(), dir)[0]
	assert.Equal(t, "openb-default-42", tr.Name)
	inst := tr.Instance
	assert.Equal(t, binpack.Fixed, inst.Fleet)
	assert.Equal(t, []binpack.Dimension{
		{Name: "cpu", Unit: "m", One: 1000},
		{Name: "memory", One: 1},
		{Name: "gpu", Unit: "m", One: 1000, Device: true},
	}, inst.Dimensions)
	require.Len(t, inst.Machines, 3)
	for _, m := range inst.Machines {
		model, capacity := "P100", []int64{64000, 2 << 30, 2000}
		if m.Name == "n1" {
			model, capacity = "T4", []int64{8000, 1 << 30, 1000}
		}
		assert.Equal(t, model, inst.Types[m.Type])
		assert.Equal(t, capacity, m.Capacity)
		assert.Equal(t, 1, m.Count)
	}
	var apps []string
	for _, a := range inst.Apps {
		var types []string
		for _, i := range a.Types {
			types = append(types, inst.Types[i])
		}
		slices.Sort(types)
		apps = append(apps, fmt.Sprint(a.Name, " ", types, " ", a.Demand, " ", a.Expected))
	}
	assert.Equal(t, []string{ // pods by name; there is no H100
		"12500m-512Mi-2x1000m-P100+H100 [P100] [12500 536870912 2000] 1",
		"4000m-1024Mi-1x460m [] [4000 1073741824 460] 2",
		"1000m-512Mi-0x0m [] [1000 536870912 0] 1",
		"4000m-1024Mi-1x1000m-T4+P100 [P100 T4] [4000 1073741824 1000] 1",
		"1000m-512Mi-1x40m [] [1000 536870912 40] 1",
	}, apps)
	assert.InDelta(t, 3, tr.Events[3].Time, 0)
	assert.Equal(t, binpack.Group{Name: "4000m-1x460m"}, inst.Groups[inst.Apps[1].Group])

	opt := Defaults()
	opt.List = "plain" // without gpu_spec
	assert.Nil(t, convert(t, "openb", opt, dir)[0].Instance.Apps[0].Types)
}

// TestOpenbProtocol: every pod arrives once, then copies until the load is
// reached; with a lower load some pods do not come. A seed decides all.
func TestOpenbProtocol(t *testing.T) {
	dir := write(t, tinyOpenb())
	demand := func(tr *trace.Trace) (sum int64) {
		for _, r := range tr.Requests {
			sum += tr.Instance.Apps[r.App].Demand[2]
		}
		return sum
	}
	names := func(tr *trace.Trace) (requests, machines string) {
		var r, m []string
		for _, request := range tr.Requests {
			r = append(r, request.Name)
		}
		for _, machine := range tr.Instance.Machines {
			m = append(m, machine.Name)
		}
		return strings.Join(r, " "), strings.Join(m, " ")
	}
	orders := map[string]bool{}
	for seed := range int64(20) {
		opt := Options{List: "default", Seed: seed, Load: 4}
		up := converted(t, "openb", opt, dir)[0]
		requests, machines := names(up)
		orders[machines] = true
		again, _ := names(converted(t, "openb", opt, dir)[0])
		assert.Equal(t, requests, again)
		assert.Len(t, strings.Fields(machines), 3)
		for i, r := range up.Requests {
			if i < 6 {
				assert.Len(t, r.Name, 2)
			} else {
				assert.Contains(t, r.Name, fmt.Sprint("-tuned-", i-6))
			}
		}
		// The last copy may pass the load by its second GPU; the next would pass
		// it by its first, or has none.
		assert.Greater(t, demand(up), int64(4*5000-1000))
		assert.LessOrEqual(t, demand(up), int64(4*5000+1000))

		opt.Load = .5
		down := converted(t, "openb", opt, dir)[0]
		assert.LessOrEqual(t, demand(down), int64(2500))
		assert.Less(t, len(down.Requests), 6)
		assert.Equal(t, up.Instance.Apps[1].Expected, down.Instance.Apps[1].Expected)
	}
	assert.Greater(t, len(orders), 1)
}

func TestOpenbErrors(t *testing.T) {
	nodes, pods := "openb_node_list_gpu_node.csv", "openb_pod_list_default.csv.gz"
	head := "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
	for _, tt := range []struct{ file, text, want string }{
		{nodes, "", nodes + ":1: empty, want a line of column names"},
		{nodes, "sn,cpu_milli,memory_mib,gpu\n", nodes + `:1: column "model" is missing`},
		{nodes, "sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,1\n", nodes + ":2: 4 fields, but 5 columns"},
		{nodes, "sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,1,a\nn0,1,1,1,a\n", nodes + `:3: sn "n0": empty or a duplicate`},
		{nodes, "sn,cpu_milli,memory_mib,gpu,model\nn0,1,-1,1,a\n", nodes + `:2: memory_mib "-1": not a count`},
		{nodes, "sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,1,\n", nodes + `:2: model "": want one name`},
		{nodes, "sn,cpu_milli,memory_mib,gpu,model\n", nodes + ":1: column names alone"},
		{pods, head, pods + ":1: column names alone"},
		{pods, head + "p,1.5,1,0,0,\n", pods + `:2: cpu_milli "1.5": not a count`},
		{pods, head + "p,1,1,2,500,\n", pods + ":2: gpu_milli 500 of 2 GPUs: want at most one GPU, or several whole ones"},
		{pods, head + "p,1,1,1,0,\n", pods + ":2: gpu_milli 0 of 1 GPUs: only one of them is 0"},
		{pods, head + "p,1,1,1,500,H100\n", pods + `:2: gpu_spec "H100": no node has it`},
		{pods, head + "p,1,1,0,0,\np,1,1,0,0,\n", pods + `:3: name "p": empty or a duplicate`},
	} {
		files := tinyOpenb()
		files[tt.file] = tt.text
		if tt.file == nodes {
			delete(files, pods)
			files["openb_pod_list_default.csv"] = head
		}
		require.ErrorContains(t, convertError("openb", write(t, files)), tt.want)
	}
	dir := write(t, tinyOpenb())
	require.ErrorContains(t, Convert("openb", []string{dir}, Options{List: "none", Load: 1}, nil), "no file is named like pod_list_none.")
	require.ErrorContains(t, Convert("openb", []string{dir}, Options{List: "default"}, nil), "load 0: want a positive number")
	require.ErrorContains(t, Convert("openb", []string{dir}, Options{List: "default", Load: 1e300}, nil), "load 1e+300: want a positive number, at most 100")
}

func TestOpenbPublic(t *testing.T) {
	dir := data(t, "openb")
	var table strings.Builder
	fmt.Fprintln(&table, "list         apps  pods  arrivals  gpu load  trace")
	for _, list := range []string{"default", "cpu050", "cpu100", "cpu250", "gpushare40", "gpushare100", "gpuspec33", "multigpu20"} {
		opt := Defaults()
		opt.List = list
		tr := converted(t, "openb", opt, dir)[0]
		require.Len(t, tr.Instance.Machines, 1213)
		pods, asked, there := 0.0, int64(0), int64(0)
		for _, a := range tr.Instance.Apps {
			pods += a.Expected
		}
		for _, r := range tr.Requests {
			asked += tr.Instance.Apps[r.App].Demand[2]
		}
		for _, m := range tr.Instance.Machines {
			there += m.Capacity[2]
		}
		require.Equal(t, int64(6212000), there)
		fmt.Fprintf(&table, "%-11s  %4d  %4.0f  %8d  %8.4f  %s\n",
			list, len(tr.Instance.Apps), pods, len(tr.Requests), float64(asked)/float64(there), short(t, tr))
	}
	assert.Equal(t, openbTable, table.String())
}

const openbTable = `list         apps  pods  arrivals  gpu load  trace
default       151  8152     10866    1.2999  21f2cbae16f4
cpu050        141  7439      9957    1.2999  2d589eda9ef6
cpu100        151  7853     10504    1.2999  e5fd64582033
cpu250        151  9420     12464    1.2999  43b29ba06887
gpushare40    145  8152     11771    1.2999  6c0ef7aee092
gpushare100    78  8152     16629    1.2999  3657c59d5805
gpuspec33     457  8152     10866    1.2999  377de15c2e31
multigpu20    151  8324      9456    1.2999  99ebd673e791
`
