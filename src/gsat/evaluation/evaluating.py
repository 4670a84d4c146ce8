"""A model against many attacks: one tidy table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Generator, Tensor, nn
from tqdm.auto import tqdm

from gsat import _checks, _defaults
from gsat._arrays.chunks import take, take_labels
from gsat._arrays.norms import norm, rows, total
from gsat._ranks import ALONE, Ranks, joined, shared
from gsat.attacks import PGD, Attack, Universal
from gsat.attacks.flat import AT_ONCE
from gsat.attacks.masking import warn_of_bounds, warn_of_masking
from gsat.attacks.precision import HALF
from gsat.evaluation.cache import Cache
from gsat.losses import per_sample_cross_entropy
from gsat.models import layout
from gsat.models.modes import frozen
from gsat.models.unwrapped import unwrapped
from gsat.solvers.oracle import clamped

COLUMNS = ["attack", "strength", "eps", "accuracy", "loss", "mean_norm", "n", "seconds", "search", "masked"]
PROBE, SAMPLES = 10, 200  # gradients, and samples at the most, with which losses are compared
HIDDEN = 0.03  # share of the samples, broken with the margin loss alone, of which a warning tells
FLAT = 1e-5  # median cross-entropy below which its slopes vanish


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    attacks: Attack | Iterable[Attack] | Mapping[str, Attack],
    *,
    group_size: int = _defaults.GROUP_SIZE,
    random_state: int = 0,
    batch: Any = None,
    progress: bool = False,
    out: str | Path | None = None,
    strength: str | None = None,
    surrogate: Any = None,
    group: Literal["own", "shared"] = "own",
) -> pd.DataFrame:
    """The accuracy of a model or classifier on X, y without attack and under each of the attacks.

    A classifier's samples are prepared, batch by batch, and standardised first: the attacks' eps and bounds are in the
    units that its module sees.

    Parameters
    ----------
    model
        A torch module (m, *features) -> logits (m, classes), or a fitted classifier of gsat.
    X, y
        Samples (n, *features), and labels (n,) as the model numbers them, or those of the classifier.
    attacks
        One of `gsat.attacks`, several, or several by name.
    group_size, random_state
        The samples are dealt into groups of that size at random, the same groups for every attack.
    batch
        One id for each sample: a group then holds samples of one batch, so that the structure is that of a batch.
    progress
        Whether to show a bar.
    out
        A file of finished rows (JSON lines); what is there already is not run again.
    strength
        "fast", "standard" or "strong", how hard all attacks search (`gsat.attacks.strong`); None: as each says.
    surrogate
        Another model or classifier of the same samples, on which "standard" and "strong" also search.
    group
        In a program of several processes (torch.distributed): with "own" each evaluates alone; with "shared", where all
        make the same call with the same samples, each moves its part of every group, and a structure holds across the
        group, as in one process. All get the same table; the first writes `out`.

    Returns
    -------
    DataFrame
        One row per attack, and two for a universal one: one shift for each group ("universal"), and one for all samples
        ("universal-all"). Columns: attack, strength (columns, rank or eps), eps, accuracy, loss, mean_norm, n, seconds,
        search (fast, standard or strong), masked (by how large a share of the first group ten steps of PGD break more
        with the margin loss than with the cross-entropy; where it is large, a fast attack with the cross-entropy looks
        weak).

    Examples
    --------
    >>> import torch, gsat
    >>> model, x, y = gsat.models.ELUNet(4, 2).eval(), torch.zeros(9, 4), torch.zeros(9, dtype=torch.long)
    >>> gsat.evaluate(model, x, y, gsat.attacks.PGD(0.5, steps=5))["attack"].tolist()
    ['none', 'pgd']
    """
    _checks.one_of("group", group, ("own", "shared"))
    with joined() if group == "shared" else nullcontext(ALONE) as ranks:  # from here on others notice where one fails
        module, X, labels = _prepared(model, X, y, batch)
        n = len(X)
        _checks.count("random_state", random_state)
        groups = _groups(n, _checks.count("group_size", group_size, least=1), random_state, batch)
        jobs = _jobs(attacks, strength)
        other = None if surrogate is None else _module_and_labels(surrogate, y)[0]
        like = next(module.parameters(), torch.zeros(()))
        if len(set(counts := ranks.gathered(n))) > 1:
            raise ValueError(f'X must be the same in all processes with group="shared", got {counts} samples')
        first, cache, masked = ranks.rank == 0, None, {}
        if first and out is not None:
            settings = (group_size, random_state, batch, *([] if other is None else [other]))
            cache = Cache(Path(out), module, X, labels, settings)
        found = ranks.first([None if cache is None else cache.get(name, attack) for name, attack, _ in jobs])
        if first and None in found:
            x, known = take(X, groups[0]).to(like), take_labels(labels, groups[0]).to(like.device)
            new = [attack for (_, attack, _), row in zip(jobs, found, strict=True) if row is None]
            warn_of_masking(module, x, known, [(attack.loss, attack.strength) for attack in new if attack is not None])
            warn_of_bounds(x, [attack.bounds for attack in new if attack is not None])
            masked = _masked(module, x, known, new)
        masked = ranks.first(masked)
        table = []
        for (name, attack, whole), row in zip(
            tqdm(jobs, disable=not (progress and first), desc="attacks", unit="attack"), found, strict=True
        ):
            if row is None:
                row = _row(name, attack, module, X, labels, [torch.arange(n)] if whole else groups, like, other, ranks)
                row["masked"] = masked.get(attack.eps if attack else 0.0, 0.0)
                row = ranks.first(row)
                if cache is not None:
                    cache.put(name, attack, row)
            table.append(row)
        return pd.DataFrame(table, columns=COLUMNS)


def _row(
    name: str,
    attack: Attack | None,
    module: nn.Module,
    X: Any,
    labels: Any,
    groups: list[Tensor],
    like: Tensor,
    surrogate: nn.Module | None,
    ranks: Ranks,
) -> dict[str, Any]:
    """The row of an attack; each rank moves its part of a group, and the first all of one that is too small to part."""
    begin = time.perf_counter()
    hits = loss = length = n = 0.0
    for group in groups:
        parted = len(group) >= ranks.world
        own = torch.tensor_split(group, ranks.world)[ranks.rank] if parted else group
        if not parted and ranks.rank:
            continue
        x, y = take(X, own).to(like), take_labels(labels, own).to(like.device)
        options = {} if surrogate is None else {"surrogate": surrogate}  # an attack of one's own may not know it
        with shared(ranks if parted else ALONE):
            delta = torch.zeros_like(x) if attack is None else attack.perturb(module, x, y, **options)
        moved = x + delta if attack is None else clamped(x + delta, _checks.bounds(attack.bounds, x))
        sample_loss = attack.loss if attack is not None and callable(attack.loss) else per_sample_cross_entropy
        with frozen(module), torch.no_grad():
            for part, known in zip(torch.split(moved, AT_ONCE), torch.split(y, AT_ONCE), strict=True):
                outputs = layout.outputs(module, part)
                outputs = outputs.float() if outputs.dtype in HALF else outputs  # whose losses and sums overflow
                hits += int((outputs.argmax(1) == known).sum())
                loss += float(total(sample_loss(outputs, known)))
        length += float(norm(rows(delta), dim=1).sum())
        n += len(x)
    hits, loss, length, n = ranks.sums(hits, loss, length, n)
    return {
        "attack": name,
        "strength": 0.0 if attack is None else float(attack.size),
        "eps": 0.0 if attack is None else float(attack.eps),
        "accuracy": hits / n,
        "loss": loss / n,
        "mean_norm": length / n,
        "n": int(n),
        "seconds": time.perf_counter() - begin,
        "search": "" if attack is None else attack.strength,
    }


def _masked(module: nn.Module, x: Tensor, y: Tensor, attacks: list[Attack | None]) -> dict[float, float]:
    """By eps, the share of samples that a short PGD breaks with the margin loss but not with the cross-entropy."""
    x, y = x[:SAMPLES], y[:SAMPLES]
    found: dict[float, float] = {}
    trusting = False
    for attack in attacks:
        if attack is None or attack.eps == 0 or callable(attack.loss):
            continue
        trusting |= attack.strength == "fast" and attack.loss in (None, "cross-entropy")
        if attack.eps not in found:
            broken = [_broken(module, x, y, attack, loss) for loss in ("cross-entropy", "margin")]
            found[attack.eps] = float((broken[1] & ~broken[0]).double().mean()) - float(
                (broken[0] & ~broken[1]).double().mean()
            )
    most = max(found.values(), default=0.0)
    if trusting and most >= HIDDEN:
        with frozen(module), torch.no_grad():
            typical = abs(float(per_sample_cross_entropy(layout.outputs(module, x), y).median()))  # it may be -0.0
        if typical < FLAT:
            warnings.warn(
                f"the cross-entropy is flat (median {typical:.1g}) and hides errors: {PROBE} steps of PGD with the "
                f"margin loss break {most:.0%} more of the samples, so that fast attacks look too weak; take "
                'strength="standard", or loss="margin" in the attacks',
                UserWarning,
                stacklevel=3,
            )
    return found


def _broken(module: nn.Module, x: Tensor, y: Tensor, attack: Attack, loss: str) -> Tensor:
    """Which samples a short PGD with that loss and the eps, mask, bounds and metric of the attack breaks."""
    options = {"feature_mask": attack.feature_mask, "bounds": attack.bounds, "metric": attack.metric}
    probe = PGD(attack.eps, steps=PROBE, loss=loss, **options)
    moved = x + probe.perturb(module, x, y)
    with frozen(module), torch.no_grad():
        return layout.outputs(module, moved).argmax(1) != y


def _jobs(attacks: Any, strength: str | None) -> list[tuple[str, Attack | None, bool]]:
    """(name, attack, on the whole set at once): the clean row first."""
    if isinstance(attacks, Attack):
        attacks = [attacks]
    if not isinstance(attacks, Iterable):
        raise TypeError(f"attacks must be of gsat.attacks, got {attacks!r}")
    pairs = list(attacks.items()) if isinstance(attacks, Mapping) else [("", attack) for attack in attacks]
    jobs: list[tuple[str, Attack | None, bool]] = [("none", None, False)]
    for name, attack in pairs:
        if not isinstance(attack, Attack):
            raise TypeError(f"attacks must be of gsat.attacks, got {attack!r}")
        attack = attack if strength is None else replace(attack, strength=strength)
        jobs.append((name or attack.name, attack, False))
        if isinstance(attack, Universal):
            jobs.append((f"{name or attack.name}-all", attack, True))
    return jobs


def _groups(n: int, group_size: int, random_state: int, batch: Any) -> list[Tensor]:
    order = torch.randperm(n, generator=Generator().manual_seed(random_state))
    if batch is None:
        return list(torch.split(order, group_size))
    codes = _checks.batch_codes(batch, n)
    batches = (order[codes[order] == code] for code in range(int(codes.max()) + 1))
    return [group for own in batches for group in torch.split(own, group_size)]


def _prepared(model: Any, X: Any, y: Any, batch: Any) -> tuple[nn.Module, Any, Any]:
    """The torch module, the samples as it sees them, and the labels as it numbers them."""
    _checks.not_anndata("X", X, "adata.X")
    if hasattr(model, "estimators_") or hasattr(getattr(model, "estimator_", None), "estimators_"):
        raise TypeError(
            f"model must be one model, got a {type(model).__name__} that averages several, whose members see the "
            "samples each in its own way; evaluate best_estimator_ of a GSATClassifierCV, a member of estimators_, or "
            'take combine="best"'
        )
    model = getattr(model, "best_estimator_", model)  # what GSATClassifierCV chose
    module, labels = _module_and_labels(model, y)
    if not isinstance(model, nn.Module):
        X = model.module_input(X) if batch is None else model.module_input(X, batch)
    if len(X) == 0 or len(labels) != len(X):
        raise ValueError(f"y must have one label per sample of X ({len(X)}, at least 1), got {len(labels)}")
    return module, X, labels


def _module_and_labels(model: Any, y: Any) -> tuple[nn.Module, Any]:
    """The torch module, and the labels as it numbers them."""
    if isinstance(model, nn.Module):
        return unwrapped(model), y
    if not hasattr(model, "module_") or not hasattr(model, "classes_"):
        raise TypeError(f"model must be a torch module or a fitted gsat classifier, got {type(model).__name__}")
    known = np.asarray(model.classes_)
    labels = np.searchsorted(known, y)
    if not np.array_equal(known[np.minimum(labels, len(known) - 1)], np.asarray(y)):
        raise ValueError(f"y must hold only labels the classifier knows ({list(known)})")
    return model.module_, labels
