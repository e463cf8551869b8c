package trace

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

func (b *builder) readMachines(r io.Reader) error {
	rows, err := newTable(machinesFile, r, slices.Concat(machineColumns, b.manifest.dimensions, []string{zoneColumn}), "cost", zoneColumn)
	if err != nil {
		return err
	}
	b.types = map[string]int32{}
	seen := map[string]bool{}
	var total int64
	for err = rows.next(); err == nil; err = rows.next() {
		m, err := b.machine(rows)
		if err != nil {
			return err
		}
		if seen[m.Name] {
			return rows.badf(machineName, "duplicate machine")
		}
		seen[m.Name] = true
		if total += int64(max(m.Count, 0)); total > math.MaxInt32 {
			return rows.badf(machineCount, "more than %d machines in all", math.MaxInt32)
		} else if total > maxMachines && b.instance.Fleet == binpack.Fixed {
			return rows.badf(machineCount, "more than %d machines in a fixed fleet", maxMachines)
		}
		if err := b.quantitiesOf(rows, machineFields, "capacity"); err != nil {
			return err
		}
		b.instance.Machines = append(b.instance.Machines, m)
		b.lines = append(b.lines, rows.line())
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	b.machineLines = b.lines
	return b.checkMachineNames()
}

func (b *builder) machine(rows *table) (m binpack.MachineLine, err error) {
	if m.Name, err = rows.name(machineName); err != nil {
		return m, err
	}
	m.Name = strings.Clone(m.Name)
	if m.Type, err = b.machineType(rows); err != nil {
		return m, err
	}
	if m.Cost, err = rows.amountOr(machineCost, 1); err != nil {
		return m, err
	}
	zone := machineFields + len(b.manifest.dimensions)
	if text := rows.field(zone); text != "" {
		if err := checkName(text); err != nil {
			return m, rows.bad(zone, err)
		}
		m.Zone = strings.Clone(text)
	}
	if rows.field(machineCount) == "" {
		if b.instance.Fleet != binpack.Open {
			return m, rows.badf(machineCount, "empty, but only an open fleet has unlimited machines")
		}
		m.Count = binpack.Unlimited
		return m, nil
	}
	count, err := rows.count(machineCount, 1)
	m.Count = int(count)
	return m, err
}

// machineType is the index of the row's type, in order of first appearance. The
// empty type is one that no app can require.
func (b *builder) machineType(rows *table) (int32, error) {
	name := rows.field(machineType)
	if name != "" {
		if err := checkName(name); err != nil {
			return 0, rows.bad(machineType, err)
		}
	}
	if strings.Contains(name, "|") {
		return 0, rows.badf(machineType, "a bar separates types in apps.csv")
	}
	i, ok := b.types[name]
	if !ok {
		i = int32(len(b.instance.Types))
		name = strings.Clone(name)
		b.types[name] = i
		b.instance.Types = append(b.instance.Types, name)
	}
	return i, nil
}

// checkMachineNames refuses a machine called like one of several of another line.
func (b *builder) checkMachineNames() error {
	names := NewMachineNames(b.instance)
	for i, m := range b.instance.Machines {
		if m.Count != 1 {
			continue
		}
		base, index, ok := cutIndex(m.Name)
		line, known := names.line[base]
		if !ok || !known {
			continue
		}
		if count := b.instance.Machines[line].Count; count == binpack.Unlimited || count > 1 && int(index) < count {
			return fmt.Errorf("%s:%d: machine %q: duplicate machine: also one of the %q in line %d",
				machinesFile, b.machineLines[i], m.Name, base, b.machineLines[line])
		}
	}
	return nil
}

func (b *builder) isDevice(dimension int) bool {
	return slices.Contains(b.manifest.devices, b.manifest.dimensions[dimension])
}
