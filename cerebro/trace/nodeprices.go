package trace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// A NodePrice is the hourly price of nodes of an instance type, a capacity type and a region;
// an empty field matches all.
type NodePrice struct {
	InstanceType, CapacityType, Region string
	PerHour                            float64
}

var nodePriceColumns = []string{"instance_type", "capacity_type", "region", "price_per_hour", "currency"}

const wantCurrency = "want a currency of at most 8 signs without spaces, such as USD"

// currencies fit on a line of figures, and steer no terminal.
var currencies = regexp.MustCompile(`^[\pL\pN\pP\pS]{0,8}$`)

// ReadNodePrices reads a file of node prices: CSV with the columns instance_type, capacity_type (on-demand,
// spot or reserved), region, price_per_hour (more than 0) and optionally currency, the same in all lines.
// Of the first three an empty field matches all. currency is "" where no column names it.
func ReadNodePrices(path string) (list []NodePrice, currency string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = f.Close() }() // only read
	const instance, capacity, region, price, label = 0, 1, 2, 3, 4
	rows, err := newTable(filepath.Base(path), f, nodePriceColumns, nodePriceColumns[label])
	if err != nil {
		return nil, "", err
	}
	lines := map[NodePrice]int{}
	for {
		if err := rows.next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, "", err
		}
		p := NodePrice{InstanceType: rows.field(instance), CapacityType: rows.field(capacity), Region: rows.field(region)}
		switch p.CapacityType {
		case "", "on-demand", "spot", "reserved":
		default:
			return nil, "", rows.badf(capacity, "want on-demand, spot, reserved or nothing")
		}
		if other := lines[p]; other > 0 {
			return nil, "", fmt.Errorf("%s:%d: line %d is for the same nodes", rows.file, rows.line(), other)
		}
		lines[p] = rows.line()
		if p.PerHour, err = rows.amountOr(price, 0); err != nil {
			return nil, "", err
		}
		if p.PerHour == 0 {
			return nil, "", rows.badf(price, "want more than 0")
		}
		if c := rows.field(label); len(list) == 0 {
			if currency = c; !currencies.MatchString(c) {
				return nil, "", rows.badf(label, wantCurrency)
			}
		} else if c != currency {
			return nil, "", rows.badf(label, "the lines before have %q; want one currency", currency)
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		return nil, "", fmt.Errorf("%s: no prices", rows.file)
	}
	return list, currency, nil
}
