package trace

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sigma-scheduler/sigma/binpack"
)

func loadZones(t *testing.T, change ...string) (*Trace, error) {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"trace.yaml":   "name: zones\ndimensions: [cpu]\nfleet: fixed\n",
		"machines.csv": "machine,type,zone,count,cost,cpu\na,,x,1,1,4\nb,,,1,1,4\n",
		"apps.csv":     "app,group,cpu,max_per_zone,zone_skew\nweb,,1,2,1\ndb,store,1,,\nmore,store,1,,\n",
		"rules.csv":    "app,other,max,scope\nweb,store,1,zone\nstore,web,0,machine\nweb,store,3,\n",
		"events.csv":   "time,kind,request,app,count\n0,create,w,web,1\n",
	}, change...)
	return Load(dir)
}

func TestLimitsByZoneAreWrittenAndReadAgain(t *testing.T) {
	first, err := loadZones(t)
	if err != nil {
		t.Fatal(err)
	}
	in := first.Instance
	if in.Groups[0].Zone != (binpack.ZoneLimits{Limit: 2, Skew: 1}) || in.Groups[1].Zone != (binpack.ZoneLimits{}) ||
		len(in.ZoneRules) != 1 || in.ZoneRules[0] != (binpack.Rule{A: 0, B: 1, Max: 1}) || len(in.Rules) != 2 {
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
	if _, b, _ := again.Digests(); a != b {
		t.Error("digests", a, b)
	}
	if contents, _ := first.canonical(); !strings.HasPrefix(string(contents[0].text), "app,group,types,cpu,max_per_machine,spread_min,expected,lifetime,max_per_zone,zone_skew\n") {
		t.Errorf("%s", contents[0].text)
	}
	for _, change := range []string{"\nweb,,1,2,1\n", "web,store,1,zone\n"} {
		other, err := loadZones(t, change, strings.NewReplacer(",2,", ",3,", "1,zone", "2,zone").Replace(change))
		if err != nil {
			t.Fatal(err)
		}
		if _, b, _ := other.Digests(); a == b {
			t.Errorf("%q changes no digest", change)
		}
	}
	plain, err := loadZones(t, ",max_per_zone,zone_skew", "", "1,2,1\n", "1\n", "1,,\n", "1\n", ",scope", "", "web,store,1,zone\n", "", ",machine", "", "3,\n", "3\n")
	if err != nil {
		t.Fatal(err)
	}
	contents, _ := plain.canonical()
	for _, f := range contents {
		for _, word := range []string{"_zone", "zone_", "scope"} {
			if strings.Contains(string(f.text), word) {
				t.Errorf("%s of a trace without limits by zone has %s:\n%s", f.name, word, f.text)
			}
		}
	}
}

func TestLimitsByZoneThatAreWrong(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"\nweb,,1,2,1\n", "\nweb,,1,-2,1\n", `apps.csv:2: max_per_zone "-2": negative`},
		{"more,store,1,,\n", "more,store,1,,2\n", `apps.csv:4: zone_skew "2": other apps of group "store" have 0`},
		{"web,store,1,zone\n", "web,store,1,region\n", `rules.csv:2: scope "region": want machine or zone`},
		{"web,store,1,zone\n", "web,web,1,zone\n", `rules.csv:2: other "web": a rule between a group and itself: use max_per_machine, or max_per_zone`},
		{"dimensions: [cpu]", "dimensions: [zone_skew]", `trace.yaml:2: dimensions: "zone_skew": is the name of another column`},
	} {
		if _, err := loadZones(t, c.from, c.to); err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.to, err, c.want)
		}
	}
}
