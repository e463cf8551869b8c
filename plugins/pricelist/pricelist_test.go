package pricelist_test

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/pricelist"
)

func Example() {
	price, ok := pricelist.Of(pricelist.Node{Type: "m5.2xlarge", Region: "eu-central-1", Spot: true})
	fmt.Println(price.PerHour, ok)
	fmt.Println(price.Source)
	// Output:
	// 0.16128 true
	// AWS price list, Linux, on demand, USD an hour, read 2026-07-20, us-east-1, an estimate: × 1.2 for eu-central-1, spot × 0.35
}

func TestOf(t *testing.T) {
	for _, c := range []struct {
		node pricelist.Node
		want float64
	}{
		{pricelist.Node{Type: "m5.large"}, .096},
		{pricelist.Node{Type: "m5.large", Region: "us-east-1", ProviderID: "aws:///us-east-1a/i-0"}, .096},
		{pricelist.Node{Type: "m5.large", Region: "ap-south-1"}, .12},
		{pricelist.Node{Type: "m5.large", ProviderID: "kind://docker/x/y"}, 0},
		{pricelist.Node{Type: "m5.large", ProviderID: "gce://p/z/n"}, 0},
		{pricelist.Node{Type: "m5.huge"}, 0},
		{pricelist.Node{}, 0},
		{pricelist.Node{Type: "Standard_D8s_v5", Region: "eastus"}, .384},
		{pricelist.Node{Type: "Standard_D8s_v5", Region: "westeurope"}, .46},
		{pricelist.Node{Type: "Standard_D8s_v5", Region: "westus2"}, .384},
		{pricelist.Node{Type: "Standard_D8s_v5", Region: "australiaeast"}, .48},
		{pricelist.Node{Type: "Standard_D8s_v5", Region: "germanywestcentral"}, .46}, // as westeurope, which is nearer than eastus
		{pricelist.Node{Type: "Standard_D8s_v5", Region: "northeurope"}, .46},
		{pricelist.Node{Type: "Standard_D8s_v5", Region: "usgovvirginia"}, .48},
		{pricelist.Node{Type: "m5.large", Region: "us-gov-west-1"}, .12},
		// The prices of these types as Google publishes them.
		{pricelist.Node{Type: "n1-standard-1"}, .0475},
		{pricelist.Node{Type: "e2-standard-2", Region: "us-central1"}, .067006},
		{pricelist.Node{Type: "e2-highmem-4"}, .18078},
		{pricelist.Node{Type: "e2-medium"}, .033503},
		{pricelist.Node{Type: "n2-standard-4"}, .194236},
		{pricelist.Node{Type: "n4-standard-2"}, .0907},
		{pricelist.Node{Type: "c3-standard-4"}, .201608},
		{pricelist.Node{Type: "n2-custom-12-49152", Cores: 12, GiB: 48}, 1.05 * (12*.031611 + 48*.004237)},
		{pricelist.Node{Type: "c2-standard-4", Cores: 4, GiB: 16}, 0}, // rates that are not in the file
		{pricelist.Node{Type: "e2-custom-x", Cores: 12, GiB: 48}, 0},
	} {
		price, ok := pricelist.Of(c.node)
		require.Equal(t, c.want > 0, ok, "%+v", c.node)
		require.InDelta(t, c.want, price.PerHour, 5e-5, "%+v", c.node)
	}
}

// Sizes that follow from names, beside the clouds' documents.
func TestTypes(t *testing.T) {
	type size struct {
		provider, name, arch string
		cores                int64
		gib                  float64
	}
	for _, c := range []size{
		{pricelist.AWS, "m5.large", "amd64", 2, 8},
		{pricelist.AWS, "c5.9xlarge", "amd64", 36, 72},
		{pricelist.AWS, "c5n.18xlarge", "amd64", 72, 192},
		{pricelist.AWS, "c5n.xlarge", "amd64", 4, 10.5},
		{pricelist.AWS, "r6g.16xlarge", "arm64", 64, 512},
		{pricelist.Azure, "Standard_D16as_v5", "amd64", 16, 64},
		{pricelist.Azure, "Standard_D4pls_v5", "arm64", 4, 8},
		{pricelist.Azure, "Standard_E20s_v5", "amd64", 20, 160},
		{pricelist.Azure, "Standard_F72s_v2", "amd64", 72, 144},
		{pricelist.Google, "n1-highmem-8", "amd64", 8, 52},
		{pricelist.Google, "t2d-standard-60", "amd64", 60, 240},
	} {
		found := false
		for _, of := range pricelist.Types(c.provider, "") {
			require.Positive(t, of.PerHour, of.Name)
			if of.Name == c.name {
				found = true
				got := size{c.provider, of.Name, of.Arch, of.Cores, of.GiB}
				require.Equal(t, c, got)
			}
		}
		require.True(t, found, c.name)
	}
	not := regexp.MustCompile(`metal|flex|^Standard_[A-Z]\d+_|^t[234]g?a?\.|^g[456]|^p[345]|_v2$|^Standard_B|^x2`)
	for _, provider := range []string{pricelist.AWS, pricelist.Azure, pricelist.Google} {
		list := pricelist.Types(provider, "")
		require.Greater(t, len(list), 90, provider)
		for i, of := range list {
			require.True(t, !not.MatchString(of.Name) || regexp.MustCompile(`^Standard_F\d+s_v2$`).MatchString(of.Name), of.Name)
			require.InDelta(t, .05, of.PerHour/float64(of.Cores), .13, "%s: %+v", provider, of) // by vCPU
			require.LessOrEqual(t, list[max(0, i-1)].PerHour, of.PerHour)
		}
	}
	require.Empty(t, pricelist.Types("", ""))
}

// The files are those of the clouds' lists, line by line.
func TestFilesEqualTheirSources(t *testing.T) {
	data := os.Getenv("SIGMA_DATA")
	if data == "" {
		t.Skip("SIGMA_DATA is not set")
	}
	dropped := regexp.MustCompile(`^Standard_.*-\d+[a-z]*(_|$)|_Promo$`)
	n := 0
	for _, name := range []string{"aws_on_demand.csv", "azure_on_demand.csv"} {
		file, err := os.Open(filepath.Join(data, "prices", name))
		require.NoError(t, err)
		lines, err := csv.NewReader(file).ReadAll()
		require.NoError(t, err)
		require.NoError(t, file.Close())
		for _, line := range lines[1:] {
			want, err := strconv.ParseFloat(line[3], 64)
			require.NoError(t, err)
			price, ok := pricelist.Of(pricelist.Node{Type: line[0], Region: line[2]})
			if want == 0 { // not offered
				continue
			}
			if dropped.MatchString(line[0]) {
				require.False(t, ok, line[0])
				continue
			}
			require.True(t, ok, line[0])
			require.InDelta(t, want, price.PerHour, 1e-6, line)
			n++
		}
	}
	require.Greater(t, n, 5000)
}
