package pricelist

import (
	"embed"
	"encoding/csv"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// The providers.
const (
	AWS    = "aws"
	Azure  = "azure"
	Google = "google"
)

// SpotFactor is the price of a spot node ÷ on demand where no file has it. Spot prices change by the hour; the
// clouds name discounts of 60 to 90 %.
const SpotFactor = .35

// The factors of regions without a column of their own. They are the medians of Azure's prices in westeurope and in
// southeastasia ÷ those in eastus, over all sizes that both have.
const (
	europeFactor = 1.2
	otherFactor  = 1.25
)

//go:embed aws.csv azure.csv google.csv
var files embed.FS

// A table is a file: prices by type (of Google: rates by family) and column.
type table struct {
	source  string // source, region, date
	columns []string
	rows    map[string][]float64 // 0 = not offered
}

// tables reads the files once, by provider. They are part of the program: a fault is a bug.
var tables = sync.OnceValue(func() map[string]table {
	of := map[string]table{}
	for _, provider := range []string{AWS, Azure, Google} {
		text, err := files.ReadFile(provider + ".csv")
		if err != nil {
			panic(err)
		}
		source, rest, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		lines, err := csv.NewReader(strings.NewReader(rest)).ReadAll()
		if err != nil {
			panic(fmt.Sprintf("pricelist: %s: %v", provider, err))
		}
		t := table{source: source, columns: lines[0][1:], rows: map[string][]float64{}}
		for _, line := range lines[1:] {
			prices := make([]float64, len(line)-1)
			for i, field := range line[1:] {
				if field == "" {
					continue
				}
				if prices[i], err = strconv.ParseFloat(field, 64); err != nil {
					panic(fmt.Sprintf("pricelist: %s: %v", provider, err))
				}
			}
			t.rows[line[0]] = prices
		}
		of[provider] = t
	}
	return of
})

// A Node is a machine whose price is asked for.
type Node struct {
	ProviderID string // of the node; "" = its type decides
	Type       string // instance type
	Region     string // "" = that of the table
	Spot       bool
	// Capacity of the node: Google prices a type of any size by it.
	Cores, GiB float64
}

// A Price is that of a node on demand or on spot.
type Price struct {
	PerHour float64 // USD
	// Source is the table with its date, and the factors, as text.
	Source string
}

// providers by the scheme of a node's providerID.
var providers = map[string]string{"aws": AWS, "azure": Azure, "gce": Google}

// Of returns the price of a node; ok is false where no table has its type.
func Of(n Node) (price Price, ok bool) {
	provider := providerOf(n.Type)
	if scheme, _, found := strings.Cut(n.ProviderID, "://"); found && providers[scheme] != provider {
		return Price{}, false
	}
	t, known := tables()[provider]
	if !known {
		return Price{}, false
	}
	base, region := 0., "us-central1" // of Google's rates
	if provider == Google {
		if base = google(n.Type, n.Cores, n.GiB); base == 0 {
			return Price{}, false
		}
	} else {
		row, found := t.rows[n.Type]
		if !found {
			return Price{}, false
		}
		column := t.nearest(row, n.Region)
		base, region = row[column], t.columns[column]
	}
	price.Source = t.source
	if provider != Google {
		price.Source += ", " + region
	}
	if n.Region != "" && n.Region != region {
		factor := factorOf(n.Region, region)
		base *= factor
		price.Source += fmt.Sprintf(", an estimate: × %.3g for %s", factor, n.Region)
	}
	if n.Spot {
		base *= SpotFactor
		price.Source += fmt.Sprintf(", spot × %.3g", SpotFactor)
	}
	price.PerHour = math.Round(base*1e6) / 1e6
	return price, price.PerHour > 0
}

// nearest is the column of a region, else of one of its continent, else the first, with a price.
func (t *table) nearest(row []float64, region string) (column int) {
	best := -1
	for i, of := range t.columns {
		near := 0
		switch {
		case row[i] == 0:
			continue
		case of == region:
			near = 2
		case continent(of) == continent(region):
			near = 1
		}
		if near > best {
			column, best = i, near
		}
	}
	return column
}

var googleType = regexp.MustCompile(`^([a-z]\d[a-z]?)-`)

// providerOf returns the provider whose types have such names; "" = none.
func providerOf(name string) string {
	switch {
	case strings.HasPrefix(name, "Standard_") || strings.HasPrefix(name, "Basic_"):
		return Azure
	case strings.Contains(name, "."):
		return AWS
	case googleType.MatchString(name):
		return Google
	}
	return ""
}

var (
	northAmerica = regexp.MustCompile(`^(us-|ca-|canada|northamerica-)|us\d*$`)
	europe       = regexp.MustCompile(`^(eu-|europe-|westeurope|northeurope|uk|france|germany|switzerland|norway|sweden|poland|italy|spain|austria|belgium|denmark|finland|greece)`)
)

// continent is the factor of a region's continent.
func continent(region string) float64 {
	switch {
	case northAmerica.MatchString(region), strings.Contains(region, "gov"):
		return 1
	case europe.MatchString(region):
		return europeFactor
	}
	return otherFactor
}

// level is the price in a region ÷ that in the United States. Regions of governments are dearer than others of the country.
func level(region string) float64 {
	if strings.Contains(region, "gov") {
		return otherFactor
	}
	return continent(region)
}

// factorOf returns the price in one region ÷ that in another.
func factorOf(region, table string) float64 { return level(region) / level(table) }
