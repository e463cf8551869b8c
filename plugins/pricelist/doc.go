// Package pricelist has the on-demand prices of the instance types of AWS, Azure and Google Cloud, and their
// sizes where the name of a type gives them. The prices are files in this folder, each with its source, region and date.
// Discounts, disks, licences and the fee of a control plane are not in them.
package pricelist
