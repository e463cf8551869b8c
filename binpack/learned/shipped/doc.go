// Package shipped is the policy of a table: each row names a policy and what it is for, and the
// first row that suits the state decides.
package shipped
