"""The rules under which a site, a message or a study is refused: what each means, what to do.

An error or a refusal that crosses between sites tells the name of its rule and nothing else; the
words are added on the receiving side from the table below.
"""

from __future__ import annotations

from collections.abc import Mapping

_ASK = "ask that site's data steward; its own status says more"
_VERSIONS = "submit again; if it recurs, compare fedcsa --version at every site"

#: rule -> (what it means, what to do)
REFUSAL_RULES: Mapping[str, tuple[str, str]] = {
    # A site's own policy
    "approval": ("the site's data steward refused the study", "ask the steward for the reason"),
    "waiting": (
        "nobody at the site has decided on the study yet",
        "wait, or ask the steward; fedcsa study watch shows since when",
    ),
    "exchanges": (
        "the site does not take part in an exchange of rows",
        'agree on exchange = "table"',
    ),
    "features": (
        "the study uses a column that the site does not allow",
        "leave that column out, or ask",
    ),
    "models": (
        "the site does not allow this model, or lets no model leave",
        "choose a model that every site allows; without its model the site still examines others",
    ),
    "portable_models": (
        "the model has no format in which it may leave the site",
        "choose a linear model, trees, or a pipeline of them: see docs, choose a model",
    ),
    "predictions": (
        "the site's file does not name the column of predictions that is judged",
        "the steward adds it to [predictions] of the site's file, if the study may judge it",
    ),
    "min_target_rows": (
        "the target has too few rows",
        "a target needs 20 rows unless a site says otherwise",
    ),
    "min_fold_rows": (
        "the site has too few rows for the study's folds",
        "agree on fewer folds, or go on without it",
    ),
    "max_parameters_per_row": (
        "the model holds too many numbers for the site's rows",
        "choose a smaller model",
    ),
    "min_rows_per_leaf": (
        "a leaf of a tree, or a mean of a step, rests on too few of the site's rows",
        "agree on larger leaves, or leave out columns that are mostly missing",
    ),
    "no_own_values": ("the model holds a cell or an outcome of the site", "choose another model"),
    "max_membership_auc": (
        "the model reveals too well which patients it was fitted on",
        "choose a simpler model or a larger penalty",
    ),
    "min_penalty": (
        "a candidate's penalty is smaller than the site allows",
        "agree on larger penalties",
    ),
    "row_floors": (
        "the site's rows are too few, too rare or too unlike the target's table to answer safely",
        "ask that site which rule it was; often a column is in another unit, or the sites differ",
    ),
    "min_class_rows": (
        "a class of the outcome has too few rows at the site",
        "merge classes, or go on without it",
    ),
    "min_sd_share": (
        "a number varies far less in the target's table than at the site: it would pick out rows",
        "check the units of both; otherwise agree on a public sd",
    ),
    "min_effective_rows": (
        "too few of the site's rows resemble the target",
        "go on without the site",
    ),
    "max_row_share": ("a single row would carry too much of the report", "go on without the site"),
    "max_row_leverage": (
        "a single row would make up too much of the numbers that leave",
        "go on without the site",
    ),
    "max_candidates": (
        "the study asks about more candidates than the site answers for",
        "agree on a shorter grid, or a smaller budget of the search",
    ),
    "max_briefs": (
        "the target has asked the site too often in this period",
        "wait, or ask the steward",
    ),
    "max_tables": (
        "the target has told too many tables of its cohort",
        "wait, or use the last table",
    ),
    "cohort_changed": (
        "too few rows of the cohort have changed to tell another table",
        "use the same columns again, or wait for more patients",
    ),
    "max_bytes": (
        "a message is larger than the site allows",
        "choose a smaller model, or raise max_bytes",
    ),
    "one_brief": ("the site answers one brief per study", "give another study another name"),
    "one_round": (
        "the site answers one question per round of a search",
        "give another study another name",
    ),
    "one_model": ("the site sends one model per study", "give another study another name"),
    "one_examination": (
        "the site examines once per study, and once more if a model was dropped",
        "give another study another name",
    ),
    # The site's own state
    "rows_changed": (
        "the site's table changed while the study ran",
        "give the study another name and submit again",
    ),
    "state_lost": (
        "the site's log is older than what it sent",
        "restore the log; see the steward's page",
    ),
    "other_site": ("the state folder is another site's", "name the site's own folder in its file"),
    # Messages that are not believed
    "malformed": ("a message is malformed", _VERSIONS),
    "not_as_agreed": (
        "what came is not the study that the site agreed to",
        "compare the study files",
    ),
    "other_study": ("a message belongs to another study", _VERSIONS),
    "phase_order": ("a message came out of order", _VERSIONS),
    "replayed": ("an old message was sent again", _VERSIONS),
    "duplicate": ("a message came twice", _VERSIONS),
    "unasked": ("an answer came that nobody asked for", _VERSIONS),
    "wrong_sender": (
        "a message is not from the site that it names",
        "ask that site; look at its kit",
    ),
    "wild_model": (
        "a model predicts what no honest model would",
        "ask that site which rows it used",
    ),
    "opening_crashed": (
        "a message ended the process that opened it",
        "leave that site out, and ask what it sent",
    ),
    "opening_memory": (
        "a message took too much memory to open",
        "leave that site out, and ask what it sent",
    ),
    "opening_time": (
        "a message took too long to open",
        "leave that site out, and ask what it sent",
    ),
    "opening_interrupted": (
        "this site was stopped twice while it opened a message",
        "if the power was the cause, give the study another name",
    ),
    # Certificates and keys
    "authentication": (
        "the server did not accept the kit",
        "fedcsa federation doctor says what is wrong",
    ),
    "submit_right": ("this kit may not submit studies", "use a kit whose role is lead"),
    "signature": (
        "a message is not signed by the site that it names",
        "ask that site; look at its kit",
    ),
    "closed": (
        "a message cannot be opened with this kit's key",
        "ask the sender whether it has this site's kit",
    ),
    "key": ("a kit's key does not fit its certificate", "ask for a new kit"),
    "expired": ("a certificate has expired", "make new kits"),
    "denied": ("a kit has been withdrawn", "ask the person who runs the federation"),
    "deny_list": (
        "the list of withdrawn kits is not signed",
        "ask the person who runs the federation",
    ),
    # How a study ends
    "min_sources": (
        "too few sources answered",
        "wait for more, or ask for fewer with --min-sources",
    ),
    "no_answer": ("the source did not answer in time", _ASK),
    "no_overlap": (
        "no source resembles the target",
        "look for other sources; see when not to use it",
    ),
    "no_model": (
        "no model could be fitted or sent",
        "look at the reasons that the sources gave",
    ),
    "fit_failed": (
        "the model could not be fitted at the site",
        "choose another candidate or model",
    ),
    "untrusted": (
        "the model is of a class that nobody here trusts",
        "if you trust it, name it with --trust",
    ),
    "failed": ("something failed at the site", _ASK),
}
