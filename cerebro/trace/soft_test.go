package trace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sigma-scheduler/sigma/binpack"
)

var softFiles = map[string]string{
	"trace.yaml":   "name: soft\ndimensions: [cpu]\nfleet: fixed\nmaxShareOfApp: .5\nsource:\n  declared: {web: 0, store: 2.5}\n",
	"machines.csv": "machine,type,zone,count,cost,cpu\na,,x,1,1,4\nb,,,1,1,4\n",
	"apps.csv":     "app,group,cpu,expected,soft\nweb,,1,3,apart:machine:100|near:zone:7:store\ndb,store,1,,\n",
	"events.csv":   "time,kind,request,app,count\n0,create,w,web,1\n",
}

func loadSoft(t *testing.T, change ...string) (*Trace, error) {
	dir := t.TempDir()
	writeFiles(t, dir, softFiles, change...)
	return Load(dir)
}

// writeFiles writes files with some texts changed.
func writeFiles(t *testing.T, dir string, files map[string]string, change ...string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.NewReplacer(change...).Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPreferencesAreWrittenAndReadAgain(t *testing.T) {
	first, err := loadSoft(t)
	if err != nil {
		t.Fatal(err)
	}
	in := first.Instance
	want := []binpack.SoftTerm{{Kind: binpack.Apart, Weight: 100}, {Kind: binpack.Near, Zone: true, Weight: 7, Group: 1}}
	if got := in.Apps[0].Soft; len(got) != 2 || got[0] != want[0] || got[1] != want[1] || in.Machines[0].Zone != "x" || in.Machines[1].Zone != "" || in.MaxShareOfApp != .5 ||
		in.Apps[0].Declared != -1 || in.Apps[1].Declared != 2.5 {
		t.Fatalf("%+v", in)
	}
	dir := filepath.Join(t.TempDir(), "again")
	if err := first.Write(dir); err != nil {
		t.Fatal(err)
	}
	again, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, a, _ := first.Digests()
	_, b, _ := again.Digests()
	plain, err := loadSoft(t, "maxShareOfApp: .5\n", "", ",zone", "", ",,x,", ",,", "b,,,", "b,,", ",soft", "", ",apart:machine:100|near:zone:7:store", "", ",1,,\n", ",1,\n", "source:\n  declared: {web: 0, store: 2.5}\n", "")
	if err != nil {
		t.Fatal(err)
	}
	_, c, _ := plain.Digests()
	if a != b || a == c {
		t.Error("digests", a, b, c)
	}
	contents, _ := plain.canonical()
	for _, f := range contents {
		for _, word := range []string{"zone", "soft", "declared", "maxShare"} {
			if f.name != manifestFile && strings.Contains(string(f.text), word) || strings.Contains(string(f.text), "maxShare") {
				t.Errorf("%s of a trace without preferences has %s:\n%s", f.name, word, f.text)
			}
		}
	}
}

func TestPreferencesThatAreWrong(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"near:zone:7:store", "near:zone:7:none", `apps.csv:2: soft: unknown group "none"`},
		{"apart:machine:100", "apart:machine:101", `apps.csv:2: soft "apart:machine:101|near:zone:7:store": "apart:machine:101": weight "101": want 1 to 100`},
		{"store: 2.5", "store: -2", `trace.yaml: source.declared.store -2: want a number, 0 or more`},
		{"store: 2.5", "none: 2", `trace.yaml: source.declared: unknown group "none"`},
		{"{web: 0, store: 2.5}", "7", `trace.yaml: source.declared: want groups, each with a number`},
		{"maxShareOfApp: .5", "maxShareOfApp: 0", `trace.yaml:4: maxShareOfApp: "0": want a number above 0, up to 1`},
		{"a,,x,", "a,,\x01,", `machines.csv:2: zone "\x01": control character U+0001`},
		{"dimensions: [cpu]", "dimensions: [zone]", `trace.yaml:2: dimensions: "zone": is the name of another column`},
	} {
		if _, err := loadSoft(t, c.from, c.to); err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.to, err, c.want)
		}
	}
}
