package pricelist

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Type is an instance type of a general family with its size.
type Type struct {
	Name  string
	Arch  string // amd64 or arm64, as the label kubernetes.io/arch
	Cores int64
	GiB   float64
	// PerHour is the price on demand in the region, in USD, and Source its source.
	PerHour float64
	Source  string
}

// Types lists the types of a provider whose size follows from their names, for a region, the cheapest first: of AWS the
// families c, m and r from the 5th generation, of Azure D, E and F with premium disks, of Google those of the table, as they are
// predefined. Bare metal, burstable (AWS's flex among them) and GPU types are not among them. A node's allocatable is less
// than its size.
func Types(provider, region string) (list []Type) {
	names := slices.Collect(maps.Keys(tables()[provider].rows))
	if provider == Google {
		names = googleNames()
	}
	for _, name := range names {
		t, ok := Size(provider, name)
		if !ok || strings.Contains(name, "-flex.") || provider == Azure && !strings.Contains(azureName.FindStringSubmatch(name)[3], "s") {
			continue
		}
		price, ok := Of(Node{Type: name, Region: region, Cores: float64(t.Cores), GiB: t.GiB})
		if !ok {
			continue
		}
		t.Name, t.PerHour, t.Source = name, price.PerHour, price.Source
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b Type) int { return cmp.Or(cmp.Compare(a.PerHour, b.PerHour), strings.Compare(a.Name, b.Name)) })
	return list
}

// Size returns the size of a type where it follows from its name. It has neither price nor source.
func Size(provider, name string) (t Type, ok bool) {
	size := map[string]func(string) (Type, bool){AWS: sizeAWS, Azure: sizeAzure, Google: sizeGoogle}[provider]
	if size == nil {
		return t, false
	}
	t, ok = size(name)
	t.Name = name
	return t, ok
}

// ProviderOf returns the provider of a node by its providerID, else by its type; "" = none of the three.
func ProviderOf(providerID, instanceType string) string {
	if scheme, _, found := strings.Cut(providerID, "://"); found {
		return providers[scheme]
	}
	return providerOf(instanceType)
}

var awsName = regexp.MustCompile(`^([cmr])([5-9])([a-z]*)(?:-flex)?\.(large|(\d*)xlarge)$`)

// sizeAWS returns the size of a type: large has 2 vCPUs, Nxlarge 4N; c has 2 GiB for each, m 4 and r 8.
func sizeAWS(name string) (t Type, ok bool) {
	m := awsName.FindStringSubmatch(name)
	if m == nil {
		return t, false
	}
	t = Type{Arch: "amd64", Cores: 2}
	if m[4] != "large" {
		t.Cores = 4 * max(1, number(m[5]))
	}
	if strings.HasPrefix(m[3], "g") {
		t.Arch = "arm64"
	}
	t.GiB = float64(t.Cores) * map[string]float64{"c": 2, "m": 4, "r": 8}[m[1]]
	if strings.HasPrefix(name, "c5n.") {
		if t.GiB = float64(t.Cores) * 2.625; t.Cores >= 36 {
			t.GiB = float64(t.Cores) * 96 / 36
		}
	}
	return t, true
}

var azureName = regexp.MustCompile(`^Standard_([DEF])(\d+)([a-z]*)_v([2-9])$`)

// sizeAzure returns the size of a type: the number is that of vCPUs; D has 4 GiB for each, with l 2; E 8, but for the
// largest; F 4, with l and in v2 2, with m 8.
func sizeAzure(name string) (t Type, ok bool) {
	m := azureName.FindStringSubmatch(name)
	if m == nil || strings.ContainsAny(m[3], "ibn") {
		return t, false // isolated, or with faster disks or network
	}
	t = Type{Arch: "amd64", Cores: number(m[2])}
	if strings.Contains(m[3], "p") {
		t.Arch = "arm64"
	}
	per := map[string]float64{"D": 4, "E": 8, "F": 4}[m[1]]
	switch {
	case m[1] == "E" && t.Cores > 48, m[1] != "F" && m[4] == "2":
		return t, false
	case strings.Contains(m[3], "l"), m[4] == "2":
		per = 2
	case m[1] == "F" && strings.Contains(m[3], "m"):
		per = 8
	}
	t.GiB = float64(t.Cores) * per
	return t, true
}

// number reads a small number; 0 = it is none.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return n
}

// kinds of Google's predefined types: GiB for each vCPU, and the numbers of vCPUs.
var kinds = map[string]struct {
	gib   map[string]float64
	cores []int64
}{
	"e2":  {map[string]float64{"standard": 4, "highmem": 8, "highcpu": 1}, []int64{2, 4, 8, 16}},
	"n1":  {map[string]float64{"standard": 3.75, "highmem": 6.5, "highcpu": .9}, []int64{2, 4, 8, 16, 32, 64, 96}},
	"n2":  {map[string]float64{"standard": 4, "highmem": 8, "highcpu": 1}, []int64{2, 4, 8, 16, 32, 48, 64, 80}},
	"n2d": {map[string]float64{"standard": 4, "highmem": 8, "highcpu": 1}, []int64{2, 4, 8, 16, 32, 48, 64, 80}},
	"n4":  {map[string]float64{"standard": 4, "highmem": 8, "highcpu": 2}, []int64{2, 4, 8, 16, 32, 48, 64, 80}},
	"c3":  {map[string]float64{"standard": 4, "highmem": 8, "highcpu": 2}, []int64{4, 8, 22, 44, 88, 176}},
	"c3d": {map[string]float64{"standard": 4, "highmem": 8, "highcpu": 2}, []int64{4, 8, 16, 30, 60, 90, 180, 360}},
	"t2d": {map[string]float64{"standard": 4}, []int64{1, 2, 4, 8, 16, 32, 48, 60}},
}

// shared are the parts of a vCPU that e2's shared types pay, and their GiB.
var shared = map[string][2]float64{"e2-micro": {.25, 1}, "e2-small": {.5, 2}, "e2-medium": {1, 4}}

var predefined = regexp.MustCompile(`^([a-z]\d[a-z]?)-(standard|highmem|highcpu)-(\d+)$`)

func sizeGoogle(name string) (t Type, ok bool) {
	m := predefined.FindStringSubmatch(name)
	if m == nil || kinds[m[1]].gib[m[2]] == 0 {
		return t, false
	}
	t = Type{Arch: "amd64", Cores: number(m[3])}
	t.GiB = float64(t.Cores) * kinds[m[1]].gib[m[2]]
	return t, true
}

func googleNames() (names []string) {
	for family, of := range kinds {
		for kind := range of.gib {
			for _, n := range of.cores {
				names = append(names, family+"-"+kind+"-"+strconv.FormatInt(n, 10))
			}
		}
	}
	return names
}

// customFactor is the premium of a type of any size in the families e2, n1, n2 and n2d.
const customFactor = 1.05

// google returns the price of a type by the rates of its family; 0 = not known. One of any size is as large as the node.
func google(name string, cores, gib float64) float64 {
	family, _, _ := strings.Cut(name, "-")
	factor := 1.
	if size, ok := sizeGoogle(name); ok {
		cores, gib = float64(size.Cores), size.GiB
	} else if part, ok := shared[name]; ok {
		cores, gib = part[0], part[1]
	} else if !strings.HasPrefix(name, family+"-custom-") || !slices.Contains([]string{"n1", "n2", "n2d"}, family) {
		return 0
	} else {
		factor = customFactor
	}
	rate := tables()[Google].rows[family]
	if rate == nil {
		return 0
	}
	return factor * (float64(cores*rate[0]) + float64(gib*rate[1]))
}
