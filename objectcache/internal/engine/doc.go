// SPDX-License-Identifier: Apache-2.0

// Package engine decides what the stores of package objectcache do: which owners an object has
// (owners.go), how it is kept up to date (plan.go), and what becomes of a Get (answer.go). Its
// functions depend on their arguments alone. They take no lock, send nothing and start nothing:
// the stores collect the facts, and carry out the decisions.
package engine
