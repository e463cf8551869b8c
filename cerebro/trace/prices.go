package trace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A Price is the cost of moving items, of all requests of an app or of one request.
type Price struct {
	Line         int    // of the file
	App, Request string // one of the two
	Fixed        bool   // they must not move
	Price        float64
	Cap          int32 // the most items of the app that may move; -1 = all
}

var priceColumns = []string{"app", "request", "fixed", "price", "cap"}

// ReadPrices reads a file of prices: CSV with the columns app, request, fixed (true, false
// or empty), price (empty = 1) and cap (empty = no cap), of which all but one of app and request may be
// missing.
func ReadPrices(path string) ([]Price, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	rows, err := newTable(filepath.Base(path), f, priceColumns, priceColumns...)
	if err != nil {
		return nil, err
	}
	var list []Price
	for {
		if err := rows.next(); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, err
		}
		p, err := readPrice(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
}

func readPrice(rows *table) (p Price, err error) {
	const app, request, fixed, price, limit = 0, 1, 2, 3, 4
	p = Price{Line: rows.line(), App: rows.field(app), Request: rows.field(request)}
	if (p.App == "") == (p.Request == "") {
		return p, fmt.Errorf("%s:%d: want an app or a request, one of the two", rows.file, p.Line)
	}
	switch rows.field(fixed) {
	case "true":
		p.Fixed = true
	case "", "false":
	default:
		return p, rows.badf(fixed, "want true or false")
	}
	if p.Price, err = rows.amountOr(price, 1); err != nil {
		return p, err
	}
	if p.Price == 0 {
		return p, rows.badf(price, "want more than 0")
	}
	if p.Cap, err = rows.countOr(limit, -1); err != nil {
		return p, err
	}
	if p.Cap >= 0 && p.App == "" {
		return p, rows.badf(limit, "a cap is for an app")
	}
	return p, nil
}
