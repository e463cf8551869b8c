package trace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// replace changes one text in a file of the good trace; an empty old text
// replaces the whole file.
type malformed struct{ file, old, new, want string }

var malformedTraces = map[string]malformed{
	// Files.
	"no machines":        {"machines.csv", "", "-", "machines.csv: missing file"},
	"no events":          {"events.csv", "", "-", "events.csv: missing file"},
	"unknown file":       {"placements.csv", "", "x", "placements.csv: unknown file"},
	"empty file":         {"rules.csv", "", "", "rules.csv:1: no header line"},
	"not CSV":            {"rules.csv", "front,train,1", "front,\"train,1", `rules.csv:2: character 16: extraneous or missing " in quoted-field`},
	"bare quote":         {"rules.csv", "front,", "fr\"ont,", `rules.csv:2: character 3: bare " in non-quoted-field`},
	"unknown column":     {"apps.csv", "expected", "expectd", `apps.csv:1: unknown column "expectd"`},
	"duplicate column":   {"rules.csv", "app,other,max\nfront,train,1", "app,other,max,app\nfront,train,1,front", `rules.csv:1: duplicate column "app"`},
	"missing column":     {"events.csv", "time,kind,request,app,count", "time,kind,request,app", `events.csv:1: missing column "count"`},
	"semicolons":         {"events.csv", "time,kind,request,app,count", "time;kind;request;app;count", `events.csv:1: missing column "time": fields are separated by commas, not as in "time;kind;request;app;count"`},
	"missing dimension":  {"apps.csv", "cpu,memory,gpu,", "cpu,memory,", `apps.csv:1: missing column "gpu"`},
	"columns of another": {"rules.csv", "", "machine,type\n", `rules.csv:1: missing column "app"`},
	"truncated line":     {"events.csv", "4,delete,old,,2\n", "4,delete,ol", "events.csv:6: the line ends before app: 3 fields, want 5"},
	"long line":          {"events.csv", "1,create,r1,web,3", "1,create,r1,web,3,", "events.csv:2: 6 fields, want 5"},

	// trace.yaml.
	"no YAML":              {"trace.yaml", "", "", "trace.yaml:1: empty"},
	"broken YAML":          {"trace.yaml", "fleet: open", "fleet: [open", "trace.yaml:3: did not find expected"},
	"list for a mapping":   {"trace.yaml", "", "- name\n", "trace.yaml:1: want a mapping"},
	"two documents":        {"trace.yaml", "source: {seed: 1}", "---\na: b", "trace.yaml: more than one document"},
	"unknown key":          {"trace.yaml", "fleet:", "fleets:", "trace.yaml:4: fleets: unknown key"},
	"key twice":            {"trace.yaml", "measureFrom: 5", "name: x", "trace.yaml:5: name: given twice"},
	"no fleet":             {"trace.yaml", "fleet: open\n", "", `trace.yaml:1: missing key "fleet"`},
	"no dimensions":        {"trace.yaml", "[cpu, memory, gpu]", "[]", "trace.yaml:2: dimensions: want at least one"},
	"dimensions no list":   {"trace.yaml", "[cpu, memory, gpu]", "cpu", "trace.yaml:2: dimensions: want a list"},
	"dimension twice":      {"trace.yaml", "[cpu, memory, gpu]", "[cpu, cpu]", `trace.yaml:2: dimensions: "cpu" is listed twice`},
	"dimension a column":   {"trace.yaml", "[cpu, memory, gpu]", "[cpu, count]", `trace.yaml:2: dimensions: "count": is the name of another column`},
	"dimension with colon": {"trace.yaml", "[cpu, memory, gpu]", "['a:b']", `trace.yaml:2: dimensions: "a:b": space, quote, bracket, comma, colon or bar in a name`},
	"dimension a list":     {"trace.yaml", "[cpu, memory, gpu]", "[[cpu]]", "trace.yaml:2: dimensions: want a single value"},
	"201 dimensions":       {"trace.yaml", "[cpu, memory, gpu]", "[" + numbers(201) + "]", "trace.yaml:2: dimensions: 201, want at most 200"},
	"unknown device":       {"trace.yaml", "[gpu]", "[tpu]", `trace.yaml: devices: "tpu" is not among the dimensions`},
	"unknown fleet":        {"trace.yaml", "fleet: open", "fleet: Open", `trace.yaml:4: fleet: "Open": want open or fixed`},
	"NaN measureFrom":      {"trace.yaml", "measureFrom: 5", "measureFrom: .nan", `trace.yaml:5: measureFrom: ".nan": not a finite decimal number`},
	"source a text":        {"trace.yaml", "{seed: 1}", "here", "trace.yaml:6: source: want a mapping"},
	"alias":                {"trace.yaml", "{seed: 1}", "{a: &a 1, b: *a}", "trace.yaml:6: source: b: anchors and aliases are not supported"},
	"currency with codes":  {"trace.yaml", "{seed: 1}", `{currency: "USD\x1b[2J"}`, "trace.yaml: source.currency: want a currency of at most 8 signs without spaces, such as USD"},
	"currency too long":    {"trace.yaml", "{seed: 1}", "{currency: simoleons}", "trace.yaml: source.currency: want a currency of at most 8 signs"},
	"currency a number":    {"trace.yaml", "{seed: 1}", "{currency: 1}", "trace.yaml: source.currency: want a currency of at most 8 signs"},
	"unknown requests":     {"trace.yaml", "{seed: 1}", "{requests: single}", "trace.yaml: source.requests: single: want whole, or nothing"},
	"infinite source":      {"trace.yaml", "{seed: 1}", "{a: .inf}", `trace.yaml:6: source: a: ".inf": not finite`},

	// machines.csv.
	"machine twice":        {"machines.csv", "few,b,2", "big,b,2", `machines.csv:3: machine "big": duplicate machine`},
	"machine empty":        {"machines.csv", "few,b,2", ",b,2", `machines.csv:3: machine "": empty`},
	"machine of a line":    {"machines.csv", "few,b,2", "big-00007,b,1", `machines.csv:3: machine "big-00007": duplicate machine: also one of the "big" in line 2`},
	"control character":    {"machines.csv", "few,b", "f\aew,b", `machines.csv:3: machine "f\aew": control character U+0007`},
	"not UTF-8":            {"machines.csv", "few,b", "f\xffew,b", `machines.csv:3: machine "f\xffew": not valid UTF-8`},
	"type with bar":        {"machines.csv", "few,b", "few,b|c", `machines.csv:3: type "b|c": a bar separates types`},
	"count 0":              {"machines.csv", "few,b,2", "few,b,0", `machines.csv:3: count "0": less than 1`},
	"count no number":      {"machines.csv", "few,b,2", "few,b,x", `machines.csv:3: count "x": not a whole number`},
	"count large":          {"machines.csv", "few,b,2", "few,b,99999999999999999999", `machines.csv:3: count "99999999999999999999": out of range`},
	"count sums up":        {"machines.csv", "few,b,2,,48,256Gi,0", "few,b,2147483647,,48,256Gi,0\nx,b,1,,1,1,1", `machines.csv:4: count "1": more than 2147483647 machines in all`},
	"too many devices":     {"machines.csv", "512Gi,8", "512Gi,65537", `machines.csv:2: gpu "65537": the capacity of a device dimension is a number of devices, at most 65536`},
	"byte order mark":      {"machines.csv", "machine,", "\ufeffmachine,", "machines.csv:1: the file begins with a byte order mark"},
	"negative cost":        {"machines.csv", "big,a,,2", "big,a,,-2", `machines.csv:2: cost "-2": negative`},
	"NaN cost":             {"machines.csv", "big,a,,2", "big,a,,NaN", `machines.csv:2: cost "NaN": not a finite decimal number`},
	"infinite cost":        {"machines.csv", "big,a,,2", "big,a,,1e999", `machines.csv:2: cost "1e999": out of range`},
	"cost beyond 2^53":     {"machines.csv", "big,a,,2", "big,a,,9007199254740994", `machines.csv:2: cost "9007199254740994": out of range`},
	"unknown suffix":       {"machines.csv", "512Gi", "512Qi", `machines.csv:2: memory "512Qi": unknown suffix "Qi"`},
	"negative capacity":    {"machines.csv", "512Gi", "-512Gi", `machines.csv:2: memory "-512Gi": negative`},
	"capacity overflow":    {"machines.csv", "512Gi", "512Ei", `machines.csv:2: memory "512Ei": above 2^50 units`},
	"capacity empty":       {"machines.csv", "512Gi", "", `machines.csv:2: memory "": empty`},
	"unit too fine for it": {"machines.csv", "512Gi", "512Gi,8\nhuge,a,1,1,1125899906842624,1", `machines.csv:3: cpu 1Pi in units of 1m, which another value of the dimension needs: above 2^50 units`},
	"part of a device":     {"machines.csv", "512Gi,8", "512Gi,7.5", `machines.csv:2: gpu "7.5": the capacity of a device dimension is a number of devices`},

	// apps.csv.
	"app twice":          {"apps.csv", "api,front", "web,front", `apps.csv:3: app "web": duplicate app`},
	"app empty":          {"apps.csv", "api,front", ",front", `apps.csv:3: app "": empty`},
	"groups disagree":    {"apps.csv", "1,1Gi,0,2,3", "1,1Gi,0,1,3", `apps.csv:3: max_per_machine "1": other apps of group "front" have 2`},
	"spread disagrees":   {"apps.csv", "1,1Gi,0,2,3", "1,1Gi,0,2,", `apps.csv:3: spread_min "": other apps of group "front" have 3`},
	"unknown type":       {"apps.csv", "a|b", "a|c", `apps.csv:2: types "a|c": unknown type "c"`},
	"type empty":         {"apps.csv", "a|b", "a|", `apps.csv:2: types "a|": unknown type ""`},
	"type twice":         {"apps.csv", "a|b", "a|a", `apps.csv:2: types "a|a": type "a" is listed twice`},
	"bad demand":         {"apps.csv", "64Gi", "12Qi", `apps.csv:4: memory "12Qi": unknown suffix "Qi"`},
	"fine demand":        {"apps.csv", "500m", "0.5n", `apps.csv:2: cpu "0.5n": finer than n`},
	"negative limit":     {"apps.csv", "0,2,3,4,60", "0,-2,3,4,60", `apps.csv:2: max_per_machine "-2": negative`},
	"negative spread":    {"apps.csv", "0,2,3,4,60", "0,2,-3,4,60", `apps.csv:2: spread_min "-3": negative`},
	"negative expected":  {"apps.csv", "0,2,3,4,60", "0,2,3,-4,60", `apps.csv:2: expected "-4": negative`},
	"infinite lifetime":  {"apps.csv", "0,2,3,4,60", "0,2,3,4,Inf", `apps.csv:2: lifetime "Inf": not a finite decimal number`},
	"one and half a GPU": {"apps.csv", "64Gi,2", "64Gi,1.5", `apps.csv:4: gpu "1.5": a demand of more than one device is a whole number`},

	// rules.csv.
	"unknown group":    {"rules.csv", "front,train", "web,train", `rules.csv:2: app "web": unknown group`},
	"unknown other":    {"rules.csv", "front,train", "front,x", `rules.csv:2: other "x": unknown group`},
	"rule with itself": {"rules.csv", "front,train", "front,front", `rules.csv:2: other "front": a rule between a group and itself: use max_per_machine`},
	"negative max":     {"rules.csv", "train,1", "train,-1", `rules.csv:2: max "-1": negative`},
	"max empty":        {"rules.csv", "train,1", "train,", `rules.csv:2: max "": not a whole number`},

	// placed.csv.
	"placed unknown app":    {"placed.csv", "old,web", "old,x", `placed.csv:2: app "x": unknown app`},
	"placed on nothing":     {"placed.csv", "few-00001", "no-00001", `placed.csv:2: machine "no-00001": unknown machine`},
	"placed on a line":      {"placed.csv", "few-00001", "few", `placed.csv:2: machine "few": unknown machine`},
	"four digits":           {"placed.csv", "few-00001", "few-0001", `placed.csv:2: machine "few-0001": unknown machine`},
	"six digits":            {"placed.csv", "few-00001", "few-000001", `placed.csv:2: machine "few-000001": unknown machine`},
	"machine index":         {"placed.csv", "few-00001", "few-00002", `placed.csv:2: machine "few-00002": machine index 2 out of range: few has 2`},
	"placed count":          {"placed.csv", "few-00001,2", "few-00001,0", `placed.csv:2: count "0": less than 1`},
	"placed too many":       {"placed.csv", "few-00001,2,", "few-00001,2147483647,\nold,web,few-00001,1,", `placed.csv:2: count "2147483647": more than 134217728 items in all`},
	"placed far away":       {"placed.csv", "few-00001,2,", "big-04194304,2,", `placed.csv:2: machine "big-04194304": unknown machine`},
	"placed beyond memory":  {"placed.csv", "few-00001,2,", "big-4194304,2,", `placed.csv:2: machine "big-4194304": machine index 4194304: want below 4194304`},
	"two apps":              {"placed.csv", "few-00001,2,", "few-00001,2,\nold,api,few-00001,1,", `placed.csv:3: app "api": request "old" is of app "web" in a line before`},
	"placed no request":     {"placed.csv", "old,web", ",web", `placed.csv:2: request "": empty`},
	"device index":          {"placed.csv", "1|0", "1|8", `placed.csv:3: devices "1|8": device index 8 out of range: the machine has 8 of gpu`},
	"device no index":       {"placed.csv", "1|0", "1|-1", `placed.csv:3: devices "1|-1": device "-1": not an index`},
	"device twice":          {"placed.csv", "1|0", "1|1", `placed.csv:3: devices "1|1": device 1 is listed twice`},
	"device of no device":   {"placed.csv", "1|0", "cpu:1|cpu:0", `placed.csv:3: devices "cpu:1|cpu:0": "cpu" is not a device dimension`},
	"too few devices":       {"placed.csv", "1|0", "1", `placed.csv:3: devices "1": 1 of gpu, want 2`},
	"devices without need":  {"placed.csv", "few-00001,2,", "big-00001,2,0", `placed.csv:2: devices "0": 1 of gpu, want 0`},
	"devices not said":      {"placed.csv", "1|0", "", `placed.csv:3: devices "": 0 of gpu, want 2`},
	"request of placed too": {"events.csv", "create,r2", "create,old", `events.csv:4: request "old": duplicate request`},

	// events.csv.
	"NaN time":          {"events.csv", "\n1,create", "\nNaN,create", `events.csv:2: time "NaN": not a finite decimal number`},
	"infinite time":     {"events.csv", "\n1,create", "\n-Inf,create", `events.csv:2: time "-Inf": not a finite decimal number`},
	"time far away":     {"events.csv", "\n1,create", "\n-1e300,create", `events.csv:2: time "-1e300": out of range`},
	"hexadecimal time":  {"events.csv", "\n1,create", "\n0x1p4,create", `events.csv:2: time "0x1p4": not a finite decimal number`},
	"no time":           {"events.csv", "\n1,create", "\n,create", `events.csv:2: time "": not a finite decimal number`},
	"back in time":      {"events.csv", "\n3,delete", "\n1.5,delete", `events.csv:5: time "1.5": before 2 in the line above`},
	"a move":            {"events.csv", "1,create", "1,move", `events.csv:2: kind "move": want create or delete`},
	"unknown kind":      {"events.csv", "1,create", "1,Create", `events.csv:2: kind "Create": want create or delete`},
	"request twice":     {"events.csv", "create,r2", "create,r1", `events.csv:4: request "r1": duplicate request`},
	"no request":        {"events.csv", "create,r2", "create,", `events.csv:4: request "": empty`},
	"event unknown app": {"events.csv", "r1,web,3", "r1,x,3", `events.csv:2: app "x": unknown app`},
	"create of none":    {"events.csv", "r1,web,3", "r1,web,0", `events.csv:2: count "0": less than 1`},
	"negative create":   {"events.csv", "r1,web,3", "r1,web,-3", `events.csv:2: count "-3": less than 1`},
	"create no count":   {"events.csv", "r1,web,3", "r1,web,", `events.csv:2: count "": not a whole number`},
	"create overflow":   {"events.csv", "r1,web,3", "r1,web,2147483648", `events.csv:2: count "2147483648": out of range`},
	"create sums up":    {"events.csv", "r1,web,3", "r1,web,134217000\n1,create,r0,web,1000", `events.csv:3: count "1000": more than 134217728 items in all`},
	"delete unknown":    {"events.csv", "delete,r1,,1", "delete,r9,,1", `events.csv:3: request "r9": delete of an unknown request`},
	"delete of none":    {"events.csv", "delete,r1,,1", "delete,r1,,0", `events.csv:3: count "0": less than 1`},
	"delete too many":   {"events.csv", "delete,r1,,1", "delete,r1,,4", `events.csv:3: count "4": delete of more items than remain of request "r1": 3 of 3`},
	"delete of nothing": {"events.csv", "delete,r1,,1", "delete,r1,,3", `events.csv:5: count "": delete of more items than remain of request "r1": 0 of 3`},
	"delete other app":  {"events.csv", "delete,r1,,1", "delete,r1,api,1", `events.csv:3: app "api": the request is of app "web"`},
	"delete of placed":  {"events.csv", "delete,old,,2", "delete,old,,3", `events.csv:6: count "3": delete of more items than remain of request "old": 2 of 2`},
}

func numbers(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("d%d", i))
	}
	return strings.Join(all, ",")
}

func TestLoadRefuses(t *testing.T) {
	for name, c := range malformedTraces {
		t.Run(name, func(t *testing.T) {
			f := good()
			switch {
			case c.new == "-":
				delete(f, c.file)
			case c.old == "":
				f[c.file] = c.new
			default:
				require.Contains(t, f[c.file], c.old)
				f[c.file] = strings.Replace(f[c.file], c.old, c.new, 1)
			}
			_, err := fromText(f)
			require.Error(t, err)
			require.True(t, strings.HasPrefix(err.Error(), c.want), "%v\nwant %s", err, c.want)
		})
	}
	f := good()
	f["trace.yaml"] = strings.Replace(f["trace.yaml"], "open", "fixed", 1)
	_, err := fromText(f)
	require.EqualError(t, err, `machines.csv:2: count "": empty, but only an open fleet has unlimited machines`)
	f["machines.csv"] = strings.Replace(f["machines.csv"], "big,a,,", "big,a,4194305,", 1)
	_, err = fromText(f)
	require.EqualError(t, err, `machines.csv:2: count "4194305": more than 4194304 machines in a fixed fleet`)
}

// A file cut at any byte is an error with its name, or a shorter trace that is
// written as it was read.
func TestLoadTruncated(t *testing.T) {
	for name, text := range good() {
		for cut := range text {
			f := good()
			f[name] = text[:cut]
			if tr, err := fromText(f); err != nil {
				require.Regexp(t, `^(trace\.yaml|(machines|apps|rules|placed|events)\.csv)(:\d+)?: `, err.Error())
			} else {
				requireRoundTrip(t, tr)
			}
		}
	}
}
