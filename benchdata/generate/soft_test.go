package generate

import (
	"testing"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Zones and preferences change nothing else of a cluster, and each size keeps its count.
func TestSoftKubernetes(t *testing.T) {
	plain, err := Generate("kubernetes", 301, map[string]string{"nodes": "30", "fleet": "fixed"})
	if err != nil {
		t.Fatal(err)
	}
	soft, err := Generate("kubernetes", 301, map[string]string{"nodes": "30", "fleet": "fixed", "soft": ".5", "zones": "3"})
	if err != nil {
		t.Fatal(err)
	}
	if _, stated := plain.Source["parameters"].(map[string]any)["soft"]; stated {
		t.Error("a trace without preferences states them")
	}
	count := map[int32]int{}
	zones := map[string]bool{}
	for _, m := range plain.Instance.Machines {
		count[m.Type] += m.Count
	}
	for _, m := range soft.Instance.Machines {
		count[m.Type] -= m.Count
		zones[m.Zone] = true
	}
	for size, n := range count {
		if n != 0 {
			t.Errorf("size %d: %d nodes lost", size, n)
		}
	}
	with, byZone := 0, 0
	for i, a := range soft.Instance.Apps {
		if len(a.Soft) > 0 {
			with++
		}
		for _, term := range a.Soft {
			if term.Kind == binpack.Even && term.Zone {
				byZone++
			}
		}
		if a.Demand[0] != plain.Instance.Apps[i].Demand[0] || a.Expected != plain.Instance.Apps[i].Expected {
			t.Errorf("%s differs", a.Name)
		}
	}
	if n := len(plain.Instance.Apps); len(zones) != 3 || with < n/5 || with > 4*n/5 || byZone == 0 || len(soft.Events) != len(plain.Events) {
		t.Errorf("%d zones, %d of %d apps prefer something, %d terms by zone", len(zones), with, n, byZone)
	}
}

// A hard spread over zones changes nothing else, and needs zones.
func TestHardKubernetes(t *testing.T) {
	set := map[string]string{"nodes": "30", "zones": "3"}
	plain, err := Generate("kubernetes", 301, set)
	if err != nil {
		t.Fatal(err)
	}
	set["hard"] = ".5"
	hard, err := Generate("kubernetes", 301, set)
	if err != nil {
		t.Fatal(err)
	}
	with := 0
	for i := range hard.Instance.Groups {
		if g := &hard.Instance.Groups[i]; g.Zone == (binpack.ZoneLimits{Skew: 1}) {
			with++
			g.Zone.Skew = 0
		}
	}
	if n := len(hard.Instance.Groups); with < n/5 || with > 4*n/5 {
		t.Errorf("%d of %d groups are spread", with, n)
	}
	_, a, _ := plain.Digests()
	if _, b, _ := hard.Digests(); a == b { // the parameters differ
		t.Error("equal digests")
	}
	hard.Source = plain.Source
	if _, b, _ := hard.Digests(); a != b {
		t.Error("the spread changes something else")
	}
	set["zones"] = "0"
	if _, err := Generate("kubernetes", 301, set); err == nil || err.Error() != "generate kubernetes: hard=0.5: want zones, too" {
		t.Error(err)
	}
}
