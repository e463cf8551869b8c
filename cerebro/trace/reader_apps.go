package trace

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

func (b *builder) readApps(r io.Reader) error {
	rows, err := newTable(appsFile, r, slices.Concat(appColumns, b.manifest.dimensions, []string{softColumn}, zoneLimitColumns),
		append([]string{"group", "types", "max_per_machine", "spread_min", "expected", "lifetime", softColumn}, zoneLimitColumns...)...)
	if err != nil {
		return err
	}
	b.apps, b.groups = map[string]int32{}, map[string]int32{}
	for err = rows.next(); err == nil; err = rows.next() {
		app, err := b.app(rows)
		if err != nil {
			return err
		}
		if err := b.quantitiesOf(rows, appFields, "demand"); err != nil {
			return err
		}
		b.apps[app.Name] = int32(len(b.instance.Apps))
		b.instance.Apps = append(b.instance.Apps, app)
		b.lines = append(b.lines, rows.line())
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	for _, p := range b.preferred {
		i, ok := b.groups[p.group]
		if !ok {
			return fmt.Errorf("%s:%d: %s: unknown group %q", appsFile, p.line, softColumn, p.group)
		}
		p.term.Group = i
	}
	if err := b.setDeclared(); err != nil {
		return err
	}
	return b.setDimensions()
}

// A groupOfTerm is a soft term whose group may follow in a later line.
type groupOfTerm struct {
	term  *binpack.SoftTerm
	group string
	line  int
}

// soft are the row's preferences.
func (b *builder) soft(rows *table, app *binpack.App) error {
	column := appFields + len(b.manifest.dimensions)
	text := rows.field(column)
	if text == "" {
		return nil
	}
	parts := strings.Split(text, "|")
	app.Soft = make([]binpack.SoftTerm, len(parts))
	for i, part := range parts {
		term, group, err := binpack.ParseSoftTerm(part)
		if err != nil {
			return rows.bad(column, err)
		}
		term.Group = app.Group
		app.Soft[i] = term
		if group != "" {
			b.preferred = append(b.preferred, groupOfTerm{&app.Soft[i], strings.Clone(group), rows.line()})
		}
	}
	return nil
}

func (b *builder) app(rows *table) (app binpack.App, err error) {
	if app.Name, err = rows.name(appName); err != nil {
		return app, err
	}
	app.Name = strings.Clone(app.Name)
	if _, ok := b.apps[app.Name]; ok {
		return app, rows.badf(appName, "duplicate app")
	}
	if app.Group, err = b.group(rows, app.Name); err != nil {
		return app, err
	}
	if app.Types, err = b.typesOf(rows); err != nil {
		return app, err
	}
	if err = b.soft(rows, &app); err != nil {
		return app, err
	}
	if app.Expected, err = rows.amountOr(appExpected, -1); err != nil {
		return app, err
	}
	if app.Lifetime, err = rows.amountOr(appLifetime, -1); err != nil {
		return app, err
	}
	return app, err
}

// group is the index of the row's group, in order of first appearance.
func (b *builder) group(rows *table, app string) (int32, error) {
	name := app
	if text := rows.field(appGroup); text != "" {
		if err := checkName(text); err != nil {
			return 0, rows.bad(appGroup, err)
		}
		name = strings.Clone(text)
	}
	zone := appFields + len(b.manifest.dimensions) + 1 // behind the preferences
	limits := []limitOf{
		{appLimit, func(g *binpack.Group) *int32 { return &g.Limit }},
		{appSpread, func(g *binpack.Group) *int32 { return &g.SpreadMin }},
		{zone, func(g *binpack.Group) *int32 { return &g.Zone.Limit }},
		{zone + 1, func(g *binpack.Group) *int32 { return &g.Zone.SpreadMin }},
		{zone + 2, func(g *binpack.Group) *int32 { return &g.Zone.Skew }},
	}
	group := binpack.Group{Name: name}
	for _, l := range limits {
		n, err := rows.countOr(l.column, 0)
		if err != nil {
			return 0, err
		}
		*l.of(&group) = n
	}
	i, ok := b.groups[name]
	if !ok {
		i = int32(len(b.instance.Groups))
		b.groups[name] = i
		b.instance.Groups = append(b.instance.Groups, group)
		return i, nil
	}
	for _, l := range limits {
		if has := *l.of(&b.instance.Groups[i]); has != *l.of(&group) {
			return 0, rows.badf(l.column, "other apps of group %q have %d", name, has)
		}
	}
	return i, nil
}

// A limitOf is a limit of a group, and its column.
type limitOf struct {
	column int
	of     func(*binpack.Group) *int32
}

// typesOf is the set of types that an app may use; nil for all.
func (b *builder) typesOf(rows *table) ([]int32, error) {
	text := rows.field(appTypes)
	if text == "" {
		return nil, nil
	}
	var types []int32
	for name := range strings.SplitSeq(text, "|") {
		i, ok := b.types[name]
		if !ok || name == "" {
			return nil, rows.badf(appTypes, "unknown type %q", name)
		}
		if slices.Contains(types, i) {
			return nil, rows.badf(appTypes, "type %q is listed twice", name)
		}
		types = append(types, i)
	}
	slices.Sort(types)
	return types, nil
}
