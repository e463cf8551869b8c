package report

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sigma-scheduler/sigma/binpack"
)

// fleet is an instance of machines of 96 cpu and as much memory as is never
// short.
func fleet(kind binpack.Fleet, apps int) *binpack.Instance {
	in := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "memory", One: 1}},
		Fleet:      kind,
		Machines:   []binpack.MachineLine{{Name: "m", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{96, 512 << 30}}},
	}
	if kind == binpack.Fixed {
		in.Machines[0].Count = 5
	}
	for a := range apps {
		cpu := int64(4 << (a % 3))
		in.Groups = append(in.Groups, binpack.Group{Name: fmt.Sprintf("a%02d", a)})
		in.Apps = append(in.Apps, binpack.App{
			Name: fmt.Sprintf("a%02d", a), Group: int32(a), Demand: []int64{cpu, cpu << 31}, Expected: -1, Lifetime: -1,
		})
	}
	return in
}

// layout fills machines to about a share of their cpu.
func layout(in *binpack.Instance, machines int, share float64) *Layout {
	rng := rand.New(rand.NewPCG(1, uint64(machines)))
	l := &Layout{Order: 1, Instance: in}
	for i := range machines {
		m := Machine{Index: int32(i)}
		for app := rng.IntN(len(in.Apps)); float64(l.requested(&m, 0)) < 96*share-16; app++ {
			m.Items = append(m.Items, binpack.Entry{App: int32(app % len(in.Apps)), Count: int32(1 + app%2)})
		}
		l.Machines = append(l.Machines, m)
	}
	return l
}

// drawnSmall is small with layouts.
func drawnSmall(machines ...int) Comparison {
	c := small()
	in := fleet(binpack.Open, 30)
	for i := range c.Results {
		n := machines[min(i, len(machines)-1)]
		c.Results[i].Layout = layout(in, n, 14/float64(n))
	}
	return c
}

func TestNewLayout(t *testing.T) {
	state := binpack.NewState(fleet(binpack.Fixed, 3))
	for _, m := range []int32{3, 1, 1} {
		if err := state.PlaceAs(2, m, nil); err != nil {
			t.Fatal(err)
		}
	}
	l := NewLayout(state, 4)
	if l.Order != 4 || len(l.Machines) != 5 || l.requested(&l.Machines[1], 0) != 32 || len(l.Machines[0].Items) != 0 {
		t.Errorf("fixed: %+v", l)
	}
	if err := state.PlaceAs(0, 1, nil); err != nil {
		t.Fatal(err)
	}
	if len(l.Machines[1].Items) != 1 {
		t.Error("a layout changes with the state")
	}
	state = binpack.NewState(fleet(binpack.Open, 3))
	if err := state.PlaceAs(2, 0, nil); err != nil {
		t.Fatal(err)
	}
	if l := NewLayout(state, 0); len(l.Machines) != 1 {
		t.Errorf("open: %d machines, want the one that holds an item", len(l.Machines))
	}
}

// Three machines of 96 hold 16, 48 and 32 cpu.
func TestDrawn(t *testing.T) {
	l := &Layout{Instance: fleet(binpack.Fixed, 3), Machines: []Machine{
		{Index: 0, Items: []binpack.Entry{{App: 2, Count: 1}}},
		{Index: 1, Items: []binpack.Entry{{App: 0, Count: 4}, {App: 2, Count: 2}}},
		{Index: 2, Items: []binpack.Entry{{App: 2, Count: 2}}},
	}}
	rank := ranks([]*Layout{l}, 0)
	if !slices.Equal(rank, []int{1, 2, 0}) {
		t.Errorf("ranks %v", rank)
	}
	machines := l.drawn(0, rank)
	order := func(machines []Machine) (list []int32) {
		for _, m := range machines {
			list = append(list, m.Index)
		}
		return list
	}
	if got := order(machines); !slices.Equal(got, []int32{1, 2, 0}) {
		t.Errorf("drawn %v", got)
	}
	if got := order(oneIn(2, machines)); !slices.Equal(got, []int32{1, 0}) {
		t.Errorf("one in two: %v", got)
	}
	if got := l.contents(&machines[0]); got != "a02 ×2, a00 ×4" {
		t.Errorf("contents %q", got)
	}
	if got := l.amounts(l.Instance.Apps[2].Demand, []int{1, 0}); got != "32Gi memory, 16 cpu" {
		t.Errorf("amounts %q", got)
	}
}

func TestAmountsOfSomeDimensions(t *testing.T) {
	l := &Layout{Instance: fleet(binpack.Open, 1)}
	if got := l.amounts([]int64{4, 5}, []int{1}); got != "5 memory, …" {
		t.Errorf("amounts of one dimension in two: %q", got)
	}
}

func TestPicture(t *testing.T) {
	c := drawnSmall(16, 20)
	p := newPicture([]Comparison{c})
	if p == nil || len(p.Picture.Panels) != 2 || p.Class != "picture" {
		t.Fatalf("picture %+v", p)
	}
	if p.Picture.Panels[0].Name != "bestfit" || p.Picture.Panels[1].Name != "learned (K1)" {
		t.Errorf("panels of %s and %s", p.Picture.Panels[0].Name, p.Picture.Panels[1].Name)
	}
	for i, panel := range p.Picture.Panels {
		svg := string(panel.SVG)
		items := 0
		for _, n := range c.pictured([]Comparison{c})[i].Layout.items() {
			items += n
		}
		_, columns, _ := strings.Cut(svg, `class="free"`)
		free, apps, _ := strings.Cut(columns, "/>")
		if strings.Count(free, "z") != len(panel.Table.Rows) {
			t.Errorf("%s: %d columns, %d rows", panel.Name, strings.Count(free, "z"), len(panel.Table.Rows))
		}
		if got := strings.Count(apps, "zM") + strings.Count(apps, `z">`); got != items {
			t.Errorf("%s: %d items drawn, want %d", panel.Name, got, items)
		}
		if !strings.Contains(svg, "optimum 15") {
			t.Errorf("%s: no limit", panel.Name)
		}
	}

	if newPicture([]Comparison{small()}) != nil || newPicture(nil) != nil {
		t.Error("a picture of nothing")
	}
	flat := drawnSmall(20)
	clear(flat.Results[0].Layout.Instance.Machines[0].Capacity)
	if newPicture([]Comparison{flat}) != nil {
		t.Error("a picture of machines without a size")
	}
	nearly := drawnSmall(20)
	nearly.Results = slices.DeleteFunc(nearly.Results, func(r Result) bool { return r.Policy != "bestfit" })
	if p := newPicture([]Comparison{nearly}); len(p.Picture.Panels) != 1 {
		t.Errorf("%d panels of one policy", len(p.Picture.Panels))
	}
}

// Where one fleet has too many machines to draw, both are thinned alike.
func TestPictureOneScale(t *testing.T) {
	c := small()
	for i := range c.Results {
		c.Results[i].Layout = layout(fleet(binpack.Open, 30), 390, .9)
	}
	c.result("bestfit").Layout = layout(fleet(binpack.Open, 30), 410, .85)
	p := newPicture([]Comparison{c})
	if len(p.Picture.Panels[0].Table.Rows) != 205 || len(p.Picture.Panels[1].Table.Rows) != 195 {
		t.Errorf("%d and %d columns of 410 and 390 machines", len(p.Picture.Panels[0].Table.Rows), len(p.Picture.Panels[1].Table.Rows))
	}
	for _, panel := range p.Picture.Panels {
		if !strings.Contains(string(panel.SVG), ">400</text>") {
			t.Errorf("%s does not count machines", panel.Name)
		}
	}
}

// A page of many machines stays small, and one of very many.
func TestPictureSize(t *testing.T) {
	for _, machines := range []int{300, 5000} {
		c := drawnSmall(machines, machines+20)
		in := fleet(binpack.Open, 400)
		for i := range c.Results {
			c.Results[i].Layout = layout(in, machines, .95)
		}
		p := newPicture([]Comparison{c})
		if p.Class != "picture wide" || len(p.Picture.Panels[0].Table.Rows) > mostColumns || (machines > mostColumns) != strings.Contains(p.Caption, "One machine in") {
			t.Errorf("%d machines: %d columns, class %s: %s", machines, len(p.Picture.Panels[0].Table.Rows), p.Class, p.Caption)
		}
		page := render(t, func(w io.Writer) error { return Page([]Comparison{c}, nil, nil).HTML(w) })
		if len(page) > 1_500_000 {
			t.Errorf("%d machines: %d bytes", machines, len(page))
		}
	}
}

// One node of ten has a GPU, which is taken; the picture is of the cores, which are half requested on all.
func TestPictureOfTheDimensionThatCostsMost(t *testing.T) {
	in := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "gpu", One: 1}},
		Machines:   []binpack.MachineLine{{Name: "m", Count: 9, Cost: 1, Capacity: []int64{8, 0}}, {Name: "g", Count: 1, Cost: 3, Capacity: []int64{8, 1}}},
		Groups:     []binpack.Group{{Name: "web"}, {Name: "ml"}},
		Apps:       []binpack.App{{Name: "web", Demand: []int64{4, 0}}, {Name: "ml", Group: 1, Demand: []int64{4, 1}}},
	}
	l := &Layout{Instance: in}
	for i := range int32(9) {
		l.Machines = append(l.Machines, Machine{Index: i, Items: []binpack.Entry{{App: 0, Count: 1}}})
	}
	l.Machines = append(l.Machines, Machine{Line: 1, Items: []binpack.Entry{{App: 1, Count: 1}}})
	c := small()
	c.Results = slices.DeleteFunc(c.Results, func(r Result) bool { return r.Policy != "bestfit" })
	c.Results[0].Layout = l
	p := newPicture([]Comparison{c})
	if want := "10 machines, 50.0 % of their cpu requested"; p.Picture.Panels[0].Note != want {
		t.Errorf("%q, want %q", p.Picture.Panels[0].Note, want)
	}
	in.Machines[1].Cost = 20 // the GPU's node costs more than the halves of the cores of all
	c.Results[0].Layout.Machines = l.Machines
	p = newPicture([]Comparison{c})
	if want := "10 machines, 100.0 % of their gpu requested"; p.Picture.Panels[0].Note != want {
		t.Errorf("%q, want %q", p.Picture.Panels[0].Note, want)
	}
	page := render(t, func(w io.Writer) error { return Page([]Comparison{c}, nil, nil).HTML(w) })
	if !strings.Contains(page, "The column of bestfit as a table") || strings.Contains(page, "% of their gpu used") {
		t.Error("one column is plural, or requests are called used")
	}
}
