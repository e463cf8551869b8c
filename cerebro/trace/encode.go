package trace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A content is one file of the canonical rewrite.
type content struct {
	name string
	text []byte
}

// canonical is the trace as we write it: the same trace gives the same bytes. Files are
// sorted by name. placed.csv is left out without placed items, pairs.csv if no apps have
// traffic; all others are always there.
func (t *Trace) canonical() ([]content, error) {
	m := manifest{
		name: t.Name, description: t.Description, fleet: t.Instance.Fleet,
		measureFrom: t.MeasureFrom, maxShareOfApp: t.Instance.MaxShareOfApp, source: t.sourceWithDeclared(),
	}
	for _, dim := range t.Instance.Dimensions {
		m.dimensions = append(m.dimensions, dim.Name)
		if dim.Device {
			m.devices = append(m.devices, dim.Name)
		}
	}
	yaml, err := m.encode()
	if err != nil {
		return nil, err
	}
	contents := []content{
		{appsFile, t.encodeApps()},
		{eventsFile, t.encodeEvents()},
		{machinesFile, t.encodeMachines()},
	}
	if len(t.Instance.Pairs) > 0 {
		contents = append(contents, content{pairsFile, t.encodePairs()})
	}
	if len(t.Placed) > 0 {
		contents = append(contents, content{placedFile, t.encodePlaced()})
	}
	contents = append(contents, content{rulesFile, t.encodeRules()}, content{manifestFile, yaml})
	return contents, nil
}

// readable returns the canonical files for the writers, or an error when the reader
// would refuse them.
func (t *Trace) readable() ([]content, error) {
	contents, err := t.canonical()
	if err != nil {
		return nil, err
	}
	return contents, readBack(contents)
}

// readBack checks that the written form can be read. A trace made in code may hold
// values that the format does not allow.
func readBack(contents []content) error {
	f := files{}
	for _, c := range contents {
		f[c.name] = inMemory(c.text)
	}
	if _, err := f.read(); err != nil {
		return fmt.Errorf("the trace cannot be read back: %w", err)
	}
	return nil
}

// A line builds rows of a CSV file.
type line struct {
	buf   []byte
	start bool // nothing of the row is written yet
}

func newLine(columns ...string) *line {
	l := &line{start: true}
	for _, c := range columns {
		l.text(c)
	}
	l.end()
	return l
}

// next starts a field.
func (l *line) next() {
	if !l.start {
		l.buf = append(l.buf, ',')
	}
	l.start = false
}

func (l *line) end() {
	l.buf = append(l.buf, '\n')
	l.start = true
}

// text writes a field, in quotes only where the format needs them.
func (l *line) text(s string) {
	l.next()
	if !strings.ContainsAny(s, ",\"\r\n") {
		l.buf = append(l.buf, s...)
		return
	}
	l.buf = append(l.buf, '"')
	l.buf = append(l.buf, strings.ReplaceAll(s, `"`, `""`)...)
	l.buf = append(l.buf, '"')
}

func (l *line) int(n int64) {
	l.next()
	l.buf = strconv.AppendInt(l.buf, n, 10)
}

// intUnless leaves the field empty where n has the meaning of empty.
func (l *line) intUnless(n, empty int64) {
	if n == empty {
		l.next()
		return
	}
	l.int(n)
}

func (l *line) float(v float64) {
	l.next()
	l.buf = appendFloat(l.buf, v)
}

// forecast leaves the field empty without a forecast.
func (l *line) forecast(v float64) {
	if v < 0 {
		l.next()
		return
	}
	l.float(v)
}

func (l *line) quantities(values []int64, dims []binpack.Dimension) {
	for d, v := range values {
		l.next()
		l.buf = appendQuantity(l.buf, v, dims[d].One)
	}
}

// appendFloat writes the shortest decimal that reads as v again.
func appendFloat(buf []byte, v float64) []byte {
	return strconv.AppendFloat(buf, v, 'f', -1, 64)
}

func dimensionNames(in *binpack.Instance) []string {
	var names []string
	for _, dim := range in.Dimensions {
		names = append(names, dim.Name)
	}
	return names
}

func (t *Trace) encodeMachines() []byte {
	in := t.Instance
	zoned := slices.ContainsFunc(in.Machines, func(m binpack.MachineLine) bool { return m.Zone != "" })
	columns := slices.Clone(machineColumns)
	if zoned {
		columns = slices.Insert(columns, machineCount, zoneColumn)
	}
	l := newLine(append(columns, dimensionNames(in)...)...)
	for _, m := range in.Machines {
		l.text(m.Name)
		l.text(in.Types[m.Type])
		if zoned {
			l.text(m.Zone)
		}
		l.intUnless(int64(m.Count), binpack.Unlimited)
		l.float(m.Cost)
		l.quantities(m.Capacity, in.Dimensions)
		l.end()
	}
	return l.buf
}

func (t *Trace) encodeApps() []byte {
	in := t.Instance
	columns := append([]string{}, appColumns[:appBeforeDimensions]...)
	columns = append(append(columns, dimensionNames(in)...), appColumns[appBeforeDimensions:]...)
	zoneLimits := usedZoneLimits(in)
	for i, of := range zoneLimits {
		if of != nil {
			columns = append(columns, zoneLimitColumns[i])
		}
	}
	soft := slices.ContainsFunc(in.Apps, func(a binpack.App) bool { return len(a.Soft) > 0 })
	if soft {
		columns = append(columns, softColumn)
	}
	l := newLine(columns...)
	for _, app := range in.Apps {
		group := in.Groups[app.Group]
		l.text(app.Name)
		if group.Name == app.Name {
			l.text("")
		} else {
			l.text(group.Name)
		}
		var types []string
		for _, i := range app.Types {
			types = append(types, in.Types[i])
		}
		l.text(strings.Join(types, "|"))
		l.quantities(app.Demand, in.Dimensions)
		l.intUnless(int64(group.Limit), 0)
		l.intUnless(int64(group.SpreadMin), 0)
		l.forecast(app.Expected)
		l.forecast(app.Lifetime)
		for _, of := range zoneLimits {
			if of != nil {
				l.intUnless(int64(of(&group.Zone)), 0)
			}
		}
		if soft {
			l.text(softText(in, &app))
		}
		l.end()
	}
	return l.buf
}

// usedZoneLimits are those of zoneLimitColumns that some group has; nil where no group has one.
func usedZoneLimits(in *binpack.Instance) (used [3]func(*binpack.ZoneLimits) int32) {
	all := [3]func(*binpack.ZoneLimits) int32{
		func(z *binpack.ZoneLimits) int32 { return z.Limit },
		func(z *binpack.ZoneLimits) int32 { return z.SpreadMin },
		func(z *binpack.ZoneLimits) int32 { return z.Skew },
	}
	for i, of := range all {
		if slices.ContainsFunc(in.Groups, func(g binpack.Group) bool { return of(&g.Zone) != 0 }) {
			used[i] = of
		}
	}
	return used
}

// softText is the preferences of an app, as in apps.csv.
func softText(in *binpack.Instance, app *binpack.App) string {
	var terms []string
	for _, term := range app.Soft {
		group := ""
		if term.Group != app.Group {
			group = in.Groups[term.Group].Name
		}
		terms = append(terms, term.Text(group))
	}
	return strings.Join(terms, "|")
}

func (t *Trace) encodeRules() []byte {
	columns, scoped := ruleColumns, len(t.Instance.ZoneRules) > 0
	if scoped {
		columns = append(slices.Clone(columns), scopeColumn)
	}
	l := newLine(columns...)
	rule := func(r binpack.Rule, scope string) {
		l.text(t.Instance.Groups[r.A].Name)
		l.text(t.Instance.Groups[r.B].Name)
		l.int(int64(r.Max))
		if scoped {
			l.text(scope)
		}
		l.end()
	}
	for _, r := range t.Instance.Rules {
		rule(r, "")
	}
	for _, r := range t.Instance.ZoneRules {
		rule(r, zoneScope)
	}
	return l.buf
}

func (t *Trace) encodePlaced() []byte {
	l := newLine(placedColumns...)
	for _, p := range t.Placed {
		request := t.Requests[p.Request]
		l.text(request.Name)
		l.text(t.Instance.Apps[request.App].Name)
		l.text(t.MachineName(p.Line, p.Index))
		l.int(int64(p.Count))
		l.text(FormatDevices(t.Instance, p.Devices))
		l.end()
	}
	return l.buf
}

// encodeEvents writes the app and the number of items of deletes too, so that
// a line can be understood alone.
func (t *Trace) encodeEvents() []byte {
	l := newLine(eventColumns...)
	for _, e := range t.Events {
		request := t.Requests[e.Request]
		l.float(e.Time)
		if e.Kind == Create {
			l.text(createText)
		} else {
			l.text(deleteText)
		}
		l.text(request.Name)
		l.text(t.Instance.Apps[request.App].Name)
		if e.Kind == Create {
			l.int(int64(request.Count))
		} else {
			l.int(int64(e.Count))
		}
		l.end()
	}
	return l.buf
}
