#!/usr/bin/env bash
# Refreshes the built-in prices of AWS and Azure from files with the columns
# instance_type,capacity_type,region,price_per_hour,currency, on demand, in USD:
#
#   hack/prices.sh AWS.csv DATE AZURE.csv DATE
#
# DATE is the day of the prices, as 2026-07-20. Sizes with fewer cpus than their memory pays for, and expired offers, are left out.
# Google's rates are by vCPU and GiB: edit plugins/pricelist/google.csv.
set -euo pipefail
aws=${1:?AWS.csv} aws_date=${2:?DATE} azure=${3:?AZURE.csv} azure_date=${4:?DATE}
cd "$(dirname "${BASH_SOURCE[0]}")/../plugins/pricelist"

# table FILE DATE SOURCE REGION…: a line for each type with its price in each region, empty where it is not offered.
table() {
	local file=$1 date=$2 source=$3
	shift 3
	printf '# %s, Linux, on demand, USD an hour, read %s\n' "$source" "$date"
	awk -F, -v regions="$*" '
		BEGIN { n = split(regions, region, " "); printf "instance_type"; for (i = 1; i <= n; i++) printf ",%s", region[i]; print "" }
		FNR > 1 && $2 == "on-demand" && $4 > 0 && $5 == "USD" && $1 !~ /^Standard_.*-[0-9]+[a-z]*(_|$)|_Promo$/ { price[$1, $3] = $4; if (!seen[$1]++) types[++count] = $1 }
		END {
			for (t = 1; t <= count; t++) {
				line = types[t]; some = ""
				for (i = 1; i <= n; i++) { p = price[types[t], region[i]]; line = line "," p; some = some p }
				if (some != "") print line
			}
		}' "$file" | { IFS= read -r head; printf '%s\n' "$head"; LC_ALL=C sort; }
}

table "$aws" "$aws_date" 'AWS price list' us-east-1 >aws.csv
table "$azure" "$azure_date" 'Azure retail prices' eastus westeurope southeastasia >azure.csv
wc -l aws.csv azure.csv
